package lock

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// Parking lets the holds of one process follow each other in one grant, without asking the servers. This is lock caching, as
// in Lustre and AFS. Readers also share one grant at the same time. A grant without a hold is parked.

// A reuse is what a grant needs for further holds.
type reuse struct {
	until time.Time   // no further hold may begin after this
	timer *time.Timer // ends the parked grant; Grant.mu guards timer and last
	last  Observer    // that of the last hold
}

// inParallel is how many parked grants are released at once, each over its own connection.
const inParallel = 256

// reuseOver reports whether no further hold may begin. It asks both clocks: the machine may have slept beyond the lease.
func (g *Grant) reuseOver(now time.Time) bool {
	return g.noMoreHolds.Load() || g.lease.Ended() || quorum.Left(g.reuse.until, now) <= 0
}

// park ends h and leaves the grant to other holds: those that share it, or the next one, if there is time for one. It reports
// false if h had ended, or if the caller must release the grant. The grant must be one that may see many holds.
func (g *Grant) park(h *Hold, now time.Time) bool {
	lost := g.terms().Kind.Shared && g.lease.Reason() != keepalive.Alive // the other holds may be learning of it just now
	g.mu.Lock()
	// An Extend first sets noMoreHolds, and then looks at the hold. So either park sees that, or Extend sees the end.
	if h.ended != keepalive.Alive || lost || g.reuseOver(now) {
		g.mu.Unlock()
		return false
	}
	h.ended = keepalive.Unlocked
	g.remove(h)
	g.reuse.last = h.Observer
	if g.reuse.timer == nil {
		g.reuse.timer = time.AfterFunc(g.reuse.until.Sub(now), g.expire)
	}
	g.mu.Unlock()
	h.audience.tell()
	h.told.Store(true)
	if g.turn.Load() { // only for kinds with one holder at a time
		g.key.pass()
	}
	return true
}

// expire ends the time for further holds, and releases the grant if it is parked.
func (g *Grant) expire() {
	g.noMoreHolds.Store(true)
	g.unpark()
}

// unpark releases the grant if it is parked: in the background. The next try waits for that, within its own bound.
func (g *Grant) unpark() {
	g.mu.Lock()
	if g.reuse == nil || g.holds != nil || g.released {
		g.mu.Unlock()
		return
	}
	g.votes.Each((*server.Claim).StandInTheWay) // before a caller of this process can find no grant
	g.close()
	g.mu.Unlock()
	e, r := g.key.engine, g.lease.End(keepalive.Unlocked, time.Now())
	ours := r == keepalive.Unlocked || r == keepalive.Closed // otherwise it was lost while it was parked
	e.quorum.Enter()                                         // Close waits for the release, or Closing says that it is too late
	release := func() {
		defer e.quorum.Leave()
		defer g.key.unref()
		if ours {
			ctx := context.Background()
			if e.releasing.Add(1) > inParallel { // this one waits for its turn at the node: thousands may expire at once
				ctx = &server.Round{Context: ctx}
			}
			defer e.releasing.Add(-1)
			r = lost(g.votes.Release(ctx, time.Now(), time.Time{}))
		} else {
			g.votes.ReleaseLater(time.Time{})
		}
		if r == keepalive.Deleted || r == keepalive.Taken { // lost while it was parked
			e.Lost[r].Add(1)
			g.reuse.last.LostIdle(r)
		}
	}
	if !ours || e.quorum.Closing() {
		release()
	} else {
		go release()
	}
}

// adopt makes h a hold of g if g is parked or shared, and has the terms t. It reports success. The caller has the turn, unless
// g is shared. If g is lost at the same time, h ends here or in Lost: Lost lists the holds after the lease has ended.
func (g *Grant) adopt(t *server.Terms, h *Hold) bool {
	if g.reuse == nil {
		return false
	}
	now := time.Now()
	if g.reuseOver(now) || g.terms() != t && *g.terms() != *t {
		g.unpark()
		return false
	}
	g.mu.Lock()
	if g.released || g.holds != nil && !g.terms().Kind.Shared {
		g.mu.Unlock()
		return false
	}
	h.grant, h.after, h.next = g, now.Sub(g.votes.At), g.holds
	g.holds = h
	g.mu.Unlock()
	if g.lease.Ended() {
		h.finish(g.lease.Reason(), 0)
	}
	return true
}
