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
	until  time.Time   // no further hold after this
	used   int64       // the last fence; belongs to the turn
	timer  *time.Timer // disposes of a grant that is parked; belongs to the turn
	parcel parcel      // the grant, when it is parked
}

// mayPark decides until when the grant may be given to further holds.
func (g *Grant) mayPark(handOff time.Duration) {
	t := g.terms
	if t.Reuse == 0 {
		g.over.Store(true)
		return
	}
	g.reuse = &reuse{until: g.won.At.Add(t.Reuse), used: g.won.Fence, parcel: parcel{grant: g}}
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
	g.key.parked.Store(&g.reuse.parcel)
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
	if g.reuse != nil && g.key.parked.CompareAndSwap(&g.reuse.parcel, nil) {
		g.dispose()
	}
}

// dispose gives a grant back that was parked and that nobody inherits, in the background. Whoever asks the
// servers next waits for that, within its own bound.
func (g *Grant) dispose() {
	g.key.grant.CompareAndSwap(g, nil)
	ended := g.lease.End(time.Now())
	done := make(chan struct{})
	release := func() {
		defer g.key.unref()
		defer close(done)
		if ended == keepalive.Unlocked {
			ended = lost(g.giveBack(context.Background(), time.Now(), false))
		} else {
			r := g.release(time.Now())
			g.key.engine.quorum.Undo(&r, g.won)
		}
		if ended == keepalive.Deleted || ended == keepalive.Taken {
			g.key.engine.lost(ended)
			g.hold.Load().Observer.LostIdle(ended)
		}
	}
	g.key.disposal.Store(&done)
	if !g.key.engine.spawn(release) {
		release()
	}
}

// adopt begins a hold in a grant that was parked, which the caller has swapped out. It reports false if there is no
// fence for one.
func (g *Grant) adopt(h *Hold, now time.Time) bool {
	fence := int64(0)
	if g.terms.Fencing {
		if fence = g.nextFence(now); fence >= g.won.Fence+g.terms.fences() {
			return false // somebody has stopped us for that long
		}
		g.reuse.used = fence
	}
	h.after = now.Sub(g.won.At)
	h.begin(g, fence)
	return true
}

// nextFence returns a fence above that of the last hold: as many microseconds later as the grant is old. So it is in
// the range that the servers have reserved, as long as there is time for a hold. Our clock is taken to run no more than
// 2% too fast.
func (g *Grant) nextFence(now time.Time) int64 {
	for spins := 0; ; spins++ {
		if fence := g.won.Fence + now.Sub(g.won.At).Microseconds()*49/50; fence > g.reuse.used {
			return fence
		}
		if spins > 1000 {
			time.Sleep(time.Microsecond) // in a bubble of testing/synctest the clock stands still until all sleep
		}
		now = time.Now() // two holds within a microsecond
	}
}

// Parked begins h in a grant that the last hold has left behind, without a look at anything shared but the
// Key. hint is the Key that the caller had the last time.
func (e *Engine) Parked(hint *Key, t *Terms, h *Hold) bool {
	if hint == nil || hint.parked.Load() == nil || !hint.fifo.TryAcquire() {
		return false
	}
	if p := hint.parked.Swap(nil); p != nil {
		if now := time.Now(); p.grant != nil && p.grant.usable(t, now) && p.grant.adopt(h, now) {
			return true // and its reference to the Key is the hold's
		}
		p.dispose()
	}
	hint.pass()
	return false
}
