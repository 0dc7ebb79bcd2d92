package lock

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
)

// Parking lets the holds of one process follow each other in one grant, without asking the servers: lock
// caching, as Lustre and AFS do it.

// A reuse is what a grant needs for further holds.
type reuse struct {
	until time.Time   // no further hold after this
	timer *time.Timer // disposes of a grant that is parked; belongs to the turn
}

// mayPark decides until when the grant may be given to further holds.
func (g *Grant) mayPark(handOff time.Duration) {
	t := g.terms
	if t.Reuse == 0 {
		g.over.Store(true)
		return
	}
	g.reuse = &reuse{until: g.won.At.Add(t.Reuse)}
	if end := g.won.Until().Add(-handOff / 2); handOff > 0 && end.Before(g.reuse.until) {
		g.reuse.until = end
	}
}

// spent reports whether the grant must not be parked any longer.
func (g *Grant) spent() bool {
	return g.over.Load() || g.lease.Ended() || g.key.engine.closed.Load()
}

// inTime reports whether there is time for a further hold. The wall clock counts as well: the other one stands
// still while the machine sleeps, and nobody may have noticed yet that the lease is over.
func (g *Grant) inTime(now time.Time) bool {
	return now.Before(g.reuse.until) && now.Round(0).Before(g.reuse.until.Round(0))
}

// usable reports whether a hold with these terms can have the grant.
func (g *Grant) usable(t *Terms, now time.Time) bool {
	return !g.spent() && g.inTime(now) && (g.terms == t || *g.terms == *t)
}

// park ends h and leaves the grant to the next hold, if there is time for one. The caller has the turn, which
// is passed on.
func (g *Grant) park(h *Hold, now time.Time) bool {
	if g.spent() || !g.inTime(now) {
		return false
	}
	if !h.end(keepalive.Unlocked) { // it was lost just now
		return false
	}
	if g.over.Load() { // after the end of the hold: whoever extends it looks at that after this
		return false
	}
	if u := g.reuse; u.timer == nil {
		u.timer = time.AfterFunc(u.until.Sub(now), g.expire)
	}
	g.key.parked.Store(g)
	k := g.key
	k.pass()
	if g.spent() { // while it was being parked
		g.expire()
	}
	return true
}

// expire disposes of a grant that is parked when its time is over. If somebody uses it, it is not parked
// again.
func (g *Grant) expire() {
	g.over.Store(true)
	g.unpark()
}

// unpark disposes of the grant if it is parked.
func (g *Grant) unpark() {
	if g.key.parked.CompareAndSwap(g, nil) {
		g.dispose()
	}
}

// dispose gives a grant back that was parked and that nobody inherits, in the background. Whoever asks the
// servers next waits for that, within its own bound.
func (g *Grant) dispose() {
	g.stopTimer()
	ended := g.lease.End(time.Now())
	done := make(chan struct{})
	release := func() {
		defer g.key.unref()
		defer close(done)
		if ended == keepalive.Unlocked {
			g.giveBack(context.Background(), time.Now())
			return
		}
		r := g.release(time.Now())
		g.key.engine.quorum.Undo(&r, g.won)
	}
	g.key.disposal.Store(&done)
	if !g.key.engine.spawn(release) {
		release()
	}
}

// stopTimer lets go of a grant that is not parked any more: the timer would keep it in memory until it fires. The caller
// has the turn, or has swapped the grant out.
func (g *Grant) stopTimer() {
	if g.reuse != nil && g.reuse.timer != nil {
		g.reuse.timer.Stop()
	}
}

// adopt begins a hold in a grant that was parked, which the caller has swapped out.
func (g *Grant) adopt(h *Hold, now time.Time) {
	h.after = now.Sub(g.won.At)
	h.begin(g)
}

// Parked begins h in a grant that the last hold has left behind, without a look at anything shared but the
// Key. hint is the Key that the caller had the last time.
func (e *Engine) Parked(hint *Key, t *Terms, h *Hold) bool {
	if hint == nil || hint.parked.Load() == nil || !hint.fifo.TryAcquire() {
		return false
	}
	if g := hint.parked.Swap(nil); g != nil {
		if now := time.Now(); g.usable(t, now) {
			g.adopt(h, now)
			return true // and its reference to the Key is the hold's
		}
		g.dispose()
	}
	hint.pass()
	return false
}
