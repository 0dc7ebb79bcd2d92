package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/server"
)

// A round asks all servers at once about one lock, or about each lock of a batch. Each server that is asked has a goroutine,
// which reports to the caller. The caller counts until all locks are decided. A later report changes nothing here, because
// each claim knows what it has on its server.
// A server that was silent lately is skipped while the others can decide without it. It is asked as soon as they can't.
// Otherwise every operation would leave a goroutine and a connection waiting for it until the node timeout.
type round struct {
	home      *Quorum
	ctx       *server.Round // of the operations
	began     time.Time
	bound     time.Duration  // of each operation
	begin     func(i int)    // not nil: called before the goroutine starts that asks server i
	ask       func(i int)    // asks server i, and reports
	onDecided func(lock int) // not nil: called when a lock is decided, or the round is over
	votes     chan vote      // what the servers' goroutines report
	rival     server.Verdict // the verdict of a server where another try was faster: see tally.split

	// Only the caller uses these.
	tallies []tally // one for each lock
	skipped []int   // servers that were not asked
}

type vote struct {
	server, lock int
	reply        server.Reply
}

// newRound returns a round about n locks. Each of its operations ends within bound, counted from start.
func (q *Quorum) newRound(ctx context.Context, n int, start time.Time, bound time.Duration) *round {
	r := &round{
		home: q, began: start, bound: bound,
		ctx:   &server.Round{Context: context.WithoutCancel(ctx), Over: make(chan struct{}), Dropped: make(chan struct{})},
		votes: make(chan vote, len(q.servers)), tallies: make([]tally, n), rival: server.Held,
	}
	for k := range r.tallies {
		r.tallies[k] = *newTally(len(q.servers))
	}
	return r
}

func (r *round) report(i, lock int, reply server.Reply) {
	select {
	case r.votes <- vote{i, lock, reply}:
	case <-r.ctx.Over:
	}
}

func (r *round) dispatch(i int) {
	if r.begin != nil {
		r.begin(i)
	}
	r.home.Go(func() { r.ask(i) })
}

// run asks the servers. It returns when the round is decided, when ctx ends, or when the servers have used up their time. A
// server that times out reports that itself, in better words: the timer is the last resort.
func (r *round) run(ctx context.Context) {
	defer close(r.ctx.Over) // also if a function of the caller panics
	limit := time.Until(r.began.Add(r.bound)) + r.bound/8
	now, wait := time.Now(), limit
	for i, s := range r.home.servers {
		d := s.Silent(now)
		if d == 0 {
			r.dispatch(i)
			continue
		}
		r.skipped = append(r.skipped, i)
		why := conn.Masked(fmt.Sprintf("no answer to an earlier command for %v", d.Round(time.Millisecond)), conn.ErrTimeout)
		for k := range r.tallies {
			r.tallies[k].replies[i].Err = why
		}
		wait = min(server.MinSilence, limit/2)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	r.count(ctx, timer, limit-wait)
	for k := range r.tallies {
		if !r.tallies[k].told {
			r.tell(k)
		}
	}
}

// count counts the votes. When the timer fires, a server that was asked hangs, so the skipped servers are needed. Often they
// were only slow for a moment. They get the time that is left.
func (r *round) count(ctx context.Context, timer *time.Timer, left time.Duration) {
	var look <-chan time.Time
	t := &r.tallies[0] // the tally of the last vote
	for undecided := len(r.tallies); undecided > 0; {
		if n := len(r.skipped); n > 0 && t.stuck(n) {
			r.askSkipped()
		}
		select {
		case v := <-r.votes:
			if t = &r.tallies[v.lock]; t.told {
				continue
			}
			t.cast(v.server, v.reply)
			if t.decided() {
				r.tell(v.lock)
				undecided--
				continue
			}
			if t.split(r.rival) && look == nil { // not at once: often the others are only slow for a moment
				look = time.After(max(server.MinSilence, r.bound/10))
			}
		case <-look:
			if r.silent() {
				return
			}
			look = time.After(server.MinSilence)
		case <-ctx.Done():
			return
		case <-timer.C:
			if left <= 0 {
				return
			}
			r.askSkipped()
			timer.Reset(left)
			left = 0
		}
	}
}

// silent reports whether the servers that have not answered are all silent.
func (r *round) silent() bool {
	now := time.Now()
	for i, s := range r.home.servers {
		if !r.tallies[0].in[i] && s.Silent(now) == 0 {
			return false
		}
	}
	return true
}

func (r *round) tell(lock int) {
	r.tallies[lock].told = true
	if r.onDecided != nil {
		r.onDecided(lock)
	}
}

func (r *round) askSkipped() {
	for _, i := range r.skipped {
		for k := range r.tallies {
			r.tallies[k].replies[i].Err = nil
		}
		r.dispatch(i)
	}
	r.skipped = nil
}
