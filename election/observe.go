package election

import (
	"context"
	"iter"
	"time"

	"github.com/redimutex/redimutex/internal/conn"
)

// A Leader is the candidate that leads. The zero Leader means that no candidate leads.
type Leader struct {
	Owner string // the name of the candidate
	Term  int64  // the fence of its lease: higher than those of all leaders before it
}

// lookTTL sets the pace while no leader was seen, or the last one is out of sight.
const lookTTL = 2 * time.Second

// Leader asks the servers who leads. Over several servers a majority must agree. It returns the zero Leader while no candidate
// leads. When it returns, another candidate may lead already; the term shows which is newer.
//
// The error is the cause of ctx, or matches [redimutex.ErrUnavailable] if too few servers answered within a second, or is the
// refusal of the servers. A [redimutex.NodeError] for each server says why.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	r, err := e.look(ctx, time.Second)
	return r.leader(), err
}

func (e *Election) look(ctx context.Context, timeout time.Duration) (record, error) {
	must(e.client != nil, "a zero Election has no server: make it by New")
	if ctx.Err() != nil {
		return record{}, context.Cause(ctx)
	}
	b := e.ask(ctx, timeout, read, false)
	if answer, decided := b.result(); decided {
		return parse(answer), nil
	}
	if conn.Over(ctx) {
		return record{}, context.Cause(ctx)
	}
	return record{}, b.failure(e.mutex.Key())
}

// Observe yields the leader, and then each change, until ctx ends or the loop is left. It asks a majority of the servers each
// eighth of the leader's TTL, and at least once a second. So it learns of a change within one TTL of the old leader, and may
// miss a leader that led for less.
//
// The zero Leader means that no candidate leads, or that too few servers have answered for most of a TTL, in which another
// candidate may have taken the lead. [Election.Leader] says why they did not answer. Observe goes on asking, even if they
// refuse. Before the first answer it yields nothing.
//
// It asks between the turns of the loop, and starts no goroutine that outlives it. If a body takes long, it learns of changes
// late.
func (e *Election) Observe(ctx context.Context) iter.Seq[Leader] {
	return func(yield func(Leader) bool) {
		var told Leader
		p, first := paceOf(lookTTL), true
		seen := time.Now()
		for {
			began := time.Now()
			r, err := e.look(ctx, p.timeout)
			next := r.leader()
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				seen = began
			case told.Term == 0 || time.Since(seen) < p.patience:
				next = told
			default: // the next leader's servers may need more time for an answer
				p = paceOf(lookTTL)
			}
			if r.term != 0 {
				p = paceOf(r.ttl)
			}
			if next != told || first && err == nil {
				first, told = false, next
				if !yield(told) {
					return
				}
			}
			if !pause(ctx, p.poll) {
				return
			}
		}
	}
}
