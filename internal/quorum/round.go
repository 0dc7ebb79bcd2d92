package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// A round asks all servers at once about one lock, or about each lock of a batch. A server that is
// asked has a goroutine, which reports; the caller waits until the reports decide the matter, and no
// longer. What reports after that counts for nothing, and cleans up after itself.
//
// A server that was silent lately is skipped, while those that are asked can still decide without
// it. It is asked as soon as they can't.
type round struct {
	home  *Quorum
	wake  chan struct{} // the matter is decided
	calls []call        // calls[i] asks server i

	// These are set before the first server is asked, and do not change after that.
	ctx       context.Context // of the operations; it does not end with the caller's
	began     time.Time
	bound     time.Duration     // of each operation
	ask       func(*round, int) // one of tryAt, raiseAt, releaseAt, extendAt
	lock      server.Lock       // raise
	fence     int64
	ttl       time.Duration
	try       server.Try
	ballot    *ballot // try
	after     *Tail   // try, release: each server is asked after its part of this
	release   server.Release
	batch     []*Extension // extend
	leases    []server.Extension
	all       []*server.Extension // into leases
	told      chan struct{}       // closed when all are decided
	undecided int                 // leases whose Done has not returned; guarded by mu, as what follows

	mu      sync.Mutex
	end     end
	parting server.Release // how a late winner takes its vote back, if its seat says so
	seats   []seat
	skipped int
	votes   []votes // one for each lock
}

// An end is what has become of a round; for a try it decides over late winners:
//
//	open ─ decided, won ─→ kept ─ Release, Undo ─→ parted
//	   └─ decided otherwise; ctx, timer ─→ dropped
type end int8

const (
	open    end = iota // the caller waits for reports
	kept               // the lock is held, and a late winner belongs to it
	dropped            // a late winner takes its vote back
	parted             // a late winner does so where its seat says so; else the release waits for it
)

// A seat is one server in one round.
type seat struct {
	state  seatState
	undo   bool          // with parted: a try that comes late takes its vote back
	unsent bool          // its try was not sent
	part   *part         // over with the goroutine; made by whoever wants to wait for it
	end    chan struct{} // closed then
}

type seatState int8

const (
	asked     seatState = iota // has a goroutine
	skipped                    // may still be asked
	askedLate                  // has a goroutine, after it had been skipped
	over                       // its goroutine has ended
)

// newRound returns a round about n locks, in which each operation takes no longer than bound.
func (q *Quorum) newRound(ctx context.Context, n int, bound time.Duration) *round {
	size := len(q.nodes)
	r := &round{
		home: q, wake: make(chan struct{}, 1), calls: make([]call, size),
		ctx: detached(ctx), began: time.Now(), bound: bound,
		seats: make([]seat, size), votes: make([]votes, n),
	}
	for i := range r.calls {
		r.calls[i] = call{r, i}
	}
	replies, in := make([]server.Reply, n*size), make([]bool, n*size)
	for k := range r.votes {
		from, to := k*size, (k+1)*size
		r.votes[k].reset(replies[from:to:to], in[from:to:to])
	}
	return r
}

// start asks the servers, but for those that are silent, while a majority can do without them.
func (r *round) start() {
	now := time.Now()
	r.mu.Lock()
	for i, n := range r.home.nodes {
		if d := n.silent(now); d > 0 {
			r.seats[i].state = skipped
			r.skipped++
			for k := range r.votes {
				r.votes[k].replies[i].Err = silentError(d)
			}
		}
	}
	if r.votes[0].stuck(r.skipped) {
		r.admit(asked)
	}
	for i := range r.seats {
		if r.seats[i].state == asked {
			r.dispatch(i)
		}
	}
	r.mu.Unlock()
}

// admit puts those that were skipped into another state. The caller holds r.mu, and dispatches them.
func (r *round) admit(to seatState) {
	for i := range r.seats {
		if r.seats[i].state != skipped {
			continue
		}
		r.seats[i].state = to
		for k := range r.votes {
			if !r.votes[k].told {
				r.votes[k].replies[i].Err = nil
			}
		}
	}
	r.skipped = 0
}

// askSkipped asks those that were skipped, if the caller still waits. The caller holds r.mu.
func (r *round) askSkipped() {
	if r.skipped == 0 || r.end != open {
		return
	}
	var late []int
	for i := range r.seats {
		if r.seats[i].state == skipped {
			late = append(late, i)
		}
	}
	r.admit(askedLate)
	for _, i := range late {
		r.dispatch(i)
	}
}

// dispatch has a goroutine ask server i. The caller holds r.mu.
func (r *round) dispatch(i int) {
	if r.ballot != nil {
		r.ballot.clean.clear(i)
		r.ballot.asked |= 1 << uint(i)
	}
	r.home.enter()
	r.home.calls.Run(&r.calls[i])
}

// A call is what the goroutine of server i does.
type call struct {
	*round
	i int
}

func (c *call) Run() { c.ask(c.round, c.i) }

// Finish notes that the goroutine has ended.
func (c *call) Finish() {
	r, i, q := c.round, c.i, c.home
	r.mu.Lock()
	r.seats[i].state = over
	if p := r.seats[i].part; p != nil {
		p.unsent = r.seats[i].unsent
		close(r.seats[i].end)
	}
	r.mu.Unlock()
	q.leave()
}

// report hands in the reply of server i, of a round about one lock. It returns what has become of it.
func (r *round) report(i int, reply server.Reply) end {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := &r.votes[0]
	v.cast(i, reply)
	if r.end == open {
		r.look(v)
		if v.decided() {
			r.signal()
		}
	}
	return r.end
}

// look asks those that were skipped, if the vote needs them now. The caller holds r.mu.
func (r *round) look(v *votes) {
	if r.skipped > 0 && v.stuck(r.skipped) {
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
	limit := r.bound + r.bound/8
	r.mu.Lock()
	patient := r.skipped > 0
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
