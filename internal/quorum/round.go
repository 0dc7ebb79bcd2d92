package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// A round asks all servers at once about one lock, or about each lock of a batch. A server that is
// asked has a goroutine, which reports; the caller waits until the reports decide the matter, and no
// longer. What reports after that counts for nothing: the claims know what it has done.
//
// A server that was silent lately is skipped, while those that are asked can still decide without
// it. It is asked as soon as they can't.
type round struct {
	home  *Quorum
	ctx   context.Context // of the operations; it does not end with the caller's
	began time.Time
	bound time.Duration // of each operation
	wake  chan struct{} // the matter is decided
	ask   func(i int)   // asks server i

	mu      sync.Mutex
	over    bool    // the caller has left
	skipped []int   // servers that were not asked
	tallies []tally // one for each lock
}

// newRound returns a round about n locks, in which each operation takes no longer than bound from start on; zero: now.
func (q *Quorum) newRound(ctx context.Context, n int, start time.Time, bound time.Duration) *round {
	if start.IsZero() {
		start = time.Now()
	}
	r := &round{home: q, ctx: detached(ctx), began: start, bound: bound, wake: make(chan struct{}, 1), tallies: make([]tally, n)}
	for k := range r.tallies {
		r.tallies[k] = newTally(len(q.nodes))
	}
	return r
}

// due is when the operations of the round are over.
func (r *round) due() time.Time { return r.began.Add(r.bound) }

// run asks the servers, and returns when the round is decided, when ctx ends, or when the servers have used up their
// time.
func (r *round) run(ctx context.Context) {
	r.start()
	r.await(ctx)
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
}

// start asks the servers, but for those that are silent, while a majority can do without them.
func (r *round) start() {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, n := range r.home.nodes {
		d := n.silent(now)
		if d == 0 {
			r.dispatch(i)
			continue
		}
		r.skipped = append(r.skipped, i)
		for k := range r.tallies {
			r.tallies[k].replies[i].Err = silentError(d)
		}
	}
	r.look(&r.tallies[0])
}

// askSkipped asks those that were skipped, if the caller still waits. The caller holds r.mu.
func (r *round) askSkipped() {
	if r.over {
		return
	}
	for _, i := range r.skipped {
		for k := range r.tallies {
			if !r.tallies[k].in[i] {
				r.tallies[k].replies[i].Err = nil
			}
		}
		r.dispatch(i)
	}
	r.skipped = nil
}

// dispatch has a goroutine ask server i.
func (r *round) dispatch(i int) {
	r.home.Enter()
	go func() {
		defer r.home.Leave()
		r.ask(i)
	}()
}

// outcome is that of a round about one lock that is held.
func (r *round) outcome(l *server.Lock) *Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tallies[0].outcome(l)
}

// report hands in the reply of server i, of a round about one lock.
func (r *round) report(i int, reply server.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	t := &r.tallies[0]
	t.cast(i, reply)
	r.look(t)
	if t.decided() {
		r.signal()
	}
}

// look asks those that were skipped, if the vote needs them now. The caller holds r.mu.
func (r *round) look(t *tally) {
	if n := len(r.skipped); n > 0 && t.stuck(n) {
		r.askSkipped()
	}
}

// signal wakes the caller.
func (r *round) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// await returns when the round is decided, when ctx ends, or when the servers have used up their
// time. A server that times out says so itself, in better words: the timer is the last resort.
func (r *round) await(ctx context.Context) {
	limit := max(0, time.Until(r.due())+r.bound/8)
	r.mu.Lock()
	patient := len(r.skipped) > 0
	r.mu.Unlock()
	if patient {
		if !r.wait(ctx, minSilence) {
			return
		}
		// One that was thought to be alive hangs, so those that were thought to hang are needed; often
		// they were but slow for a moment.
		r.mu.Lock()
		r.askSkipped()
		r.mu.Unlock()
		limit -= minSilence
	}
	r.wait(ctx, limit)
}

// wait reports whether d has passed and neither was the round decided nor did ctx end.
func (r *round) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.wake:
	case <-ctx.Done():
	case <-timer.C:
		return true
	}
	return false
}
