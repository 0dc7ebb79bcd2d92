package lock

import (
	"context"
	"slices"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
)

// Parking lets the holds of one process follow each other in one grant, without asking the servers: lock
// caching, as Lustre and AFS do it. Readers share one grant at the same time, too.

// A reuse is what a grant needs for further holds.
type reuse struct {
	until time.Time   // no further hold after this
	timer *time.Timer // ends the grant when it is parked; guarded by Grant.mu, as what follows
	last  Observer    // of the last hold
}

// mayPark decides until when the grant may be given to further holds.
func (g *Grant) mayPark(handOff time.Duration) {
	t := g.terms
	if t.Reuse == 0 {
		g.over.Store(true)
		return
	}
	g.reuse = &reuse{until: g.votes.At.Add(t.Reuse)}
	if end := g.votes.Until().Add(-handOff / 2); handOff > 0 && end.Before(g.reuse.until) {
		g.reuse.until = end
	}
}

// spent reports whether the grant must not be parked any longer.
func (g *Grant) spent() bool {
	return g.over.Load() || g.lease.Ended() || g.key.engine.closed.Load()
}

// inTime reports whether there is time for a further hold. The wall clock counts as well: the other one stands
// still while the machine sleeps, and the keep-alive may not have noticed yet that the lease is over.
func (g *Grant) inTime(now time.Time) bool {
	return now.Before(g.reuse.until) && now.Round(0).Before(g.reuse.until.Round(0))
}

// usable reports whether a hold with these terms can have the grant.
func (g *Grant) usable(t *Terms, now time.Time) bool {
	return !g.spent() && g.inTime(now) && (g.terms == t || *g.terms == *t)
}

// park ends h, and leaves the grant to other holds: those that have it too, or the next, if there is time for one. It
// reports false if the grant has to be released, by the caller.
func (g *Grant) park(h *Hold, now time.Time) bool {
	if g.reuse == nil {
		return false
	}
	if g.only(h) && (g.spent() || !g.inTime(now)) {
		return false
	}
	if !h.end(keepalive.Unlocked) { // it was lost just now
		return false
	}
	g.mu.Lock()
	if g.over.Load() { // after the end of the hold: an Extend looks at that after this
		g.mu.Unlock()
		return false
	}
	g.remove(h)
	if g.holds != nil {
		g.mu.Unlock()
		return true
	}
	g.reuse.last = h.Observer
	if u := g.reuse; u.timer == nil {
		u.timer = time.AfterFunc(u.until.Sub(now), g.expire)
	}
	if !g.terms.Kind.Shared { // else it is there, or a younger one is
		g.key.parked.Store(g)
	}
	g.mu.Unlock()
	if g.turn.Load() {
		g.key.pass()
	}
	if g.spent() { // while it was being parked
		g.unpark()
	}
	return true
}

// only reports whether h is the only hold.
func (g *Grant) only(h *Hold) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holds == h && h.next == nil
}

// expire ends the time for further holds, and releases the grant if it is parked.
func (g *Grant) expire() {
	g.over.Store(true)
	g.unpark()
}

// unpark releases the grant if it is parked: in the background, and the next try waits for that, within its own bound.
func (g *Grant) unpark() {
	g.mu.Lock()
	if g.reuse == nil || g.holds != nil || g.released || !g.terms.Kind.Shared && g.key.parked.Load() != g {
		g.mu.Unlock()
		return
	}
	g.close()
	g.mu.Unlock()
	if ended := g.lease.End(time.Now()); ended != keepalive.Unlocked {
		g.votes.ReleaseLater(time.Time{})
		g.key.follow(g.votes)
		g.key.unref()
		if ended == keepalive.Deleted || ended == keepalive.Taken {
			g.lostIdle(ended)
		}
		return
	}
	release := func() {
		defer g.key.unref()
		if r := lost(g.votes.Release(context.Background(), time.Now(), time.Time{})); r != keepalive.Alive {
			g.lostIdle(r)
		}
	}
	g.key.follow(g.votes)
	if !g.key.engine.spawn(release) {
		release()
	}
}

// lostIdle tells that the lock was lost while it was kept for the next hold.
func (g *Grant) lostIdle(r keepalive.Reason) {
	g.key.engine.lost(r)
	g.reuse.last.LostIdle(r)
}

// close ends the grant for good. The caller holds g.mu, and releases the lock.
func (g *Grant) close() {
	g.released = true
	g.key.parked.CompareAndSwap(g, nil)
	g.key.grant.CompareAndSwap(g, nil)
	if g.reuse != nil && g.reuse.timer != nil {
		g.reuse.timer.Stop()
	}
}

// share has further holds begin in g, which several may have at a time. Those that have the grant before it keep that, and
// the last of them releases it.
func (k *Key) share(g *Grant) {
	if old := k.parked.Swap(g); old != nil {
		old.expire()
	}
}

// adoptParked begins h in a grant that is parked, or that is shared. The caller has the turn, unless it is shared.
func (k *Key) adoptParked(t *Terms, h *Hold) bool {
	g := k.parked.Load()
	if g == nil {
		return false
	}
	now := time.Now()
	if !g.usable(t, now) {
		g.unpark()
		return false
	}
	if !t.Kind.Shared && !k.parked.CompareAndSwap(g, nil) {
		return false // its time was over just now
	}
	return g.begin(h, now)
}

// Parked begins h in a grant that the last hold has left behind, without a look at anything shared but the
// Key. hint is the Key that the caller had the last time.
func (e *Engine) Parked(hint *Key, t *Terms, h *Hold) bool {
	if hint == nil || hint.parked.Load() == nil {
		return false
	}
	if t.Kind.Shared {
		return hint.adoptParked(t, h)
	}
	if !hint.fifo.TryAcquire() {
		return false
	}
	if hint.adoptParked(t, h) {
		return true // and its reference to the Key is the hold's
	}
	hint.pass()
	return false
}

// A gift is a lock that a try has won for another goroutine in line.
type gift struct {
	terms *Terms
	votes *quorum.Votes
}

// give leaves what a try has won for those who come next. The caller has the turn.
func (k *Key) give(t *Terms, group []*quorum.Votes) {
	for _, v := range group {
		k.gifts = append(k.gifts, gift{t, v})
	}
}

// takeGift returns a gift for a call with these terms, or nil. The caller has the turn.
func (k *Key) takeGift(t *Terms) *quorum.Votes {
	for i, g := range k.gifts {
		if *g.terms == *t && time.Until(g.votes.Until()) > (t.TTL-quorum.Drift(t.TTL))/2 {
			k.gifts = slices.Delete(k.gifts, i, i+1)
			return g.votes
		}
	}
	return nil
}

// returnGifts releases the gifts that no process has taken. The caller has the turn.
func (k *Key) returnGifts() {
	for _, g := range k.gifts {
		g.votes.ReleaseLater(time.Time{})
	}
	k.gifts = nil
}
