package lock

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
)

// A Hold is one hold of a lock, from Lock to Unlock. A grant may see many: one after the other, or, of a kind that
// several may hold, at the same time. A Hold with its Observer alone is given to Engine.Lock, which fills it in.
type Hold struct {
	Observer Observer
	grant    *Grant
	after    time.Duration // how long after the lock was won it began

	// Guarded by the mu of the grant.
	next     *Hold            // of the grant
	ended    keepalive.Reason // Alive until the end has been noticed
	told     atomic.Bool      // the audience and the Observer know of the end; not guarded
	audience *audience        // who is told of the end, after which it does not change; nil: no caller has asked
}

// An Observer is told what happens to a call, and to its Hold, on the goroutine to which it happens.
type Observer interface {
	Waiting(ctx context.Context)
	Tried(ctx context.Context, tries int, wait time.Duration, f *quorum.Failure) // a try has failed
	Unavailable(f *quorum.Failure)                                               // too few servers answered; it is repeated
	Renewed(f *quorum.Failure)
	Lost(r keepalive.Reason)
	LostIdle(r keepalive.Reason) // the lock was lost while it was kept for the next hold; this one had ended well
}

// An audience is who wants to know that a hold has ended. Nil: there is none.
type audience struct {
	done  chan struct{}
	after map[*func()]struct{}
}

func (a *audience) tell() {
	if a == nil {
		return
	}
	for f := range a.after { // the ctxs first: who sees Done closed finds them cancelled
		(*f)()
	}
	close(a.done)
}

// closed is the Done of holds that have ended before they were asked for it.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (h *Hold) Token() string    { return h.grant.Token() }
func (h *Hold) Fence() int64     { return h.grant.votes.Fence }
func (h *Hold) Began() time.Time { return h.grant.votes.At.Add(h.after) }
func (h *Hold) Until() time.Time { return h.grant.lease.Until() }
func (h *Hold) LostKey() int     { return int(h.grant.lostKey.Load()) }

// Reason returns how the hold has ended, by the clock.
func (h *Hold) Reason() keepalive.Reason {
	if r := h.noticed(); r != keepalive.Alive {
		return r
	}
	return h.grant.lease.Reason()
}

// noticed returns how the hold has ended, if that has been noticed. It does not look at the clock.
func (h *Hold) noticed() keepalive.Reason {
	h.grant.mu.Lock()
	defer h.grant.mu.Unlock()
	return h.ended
}

// asked returns who is told of the end, or nil if that came before any caller asked. The caller holds the mu of the grant.
func (h *Hold) asked() *audience {
	if h.ended == keepalive.Alive && h.audience == nil {
		h.audience = &audience{done: make(chan struct{}), after: make(map[*func()]struct{})}
	}
	return h.audience
}

// Done returns a channel that is closed when the hold has ended.
func (h *Hold) Done() <-chan struct{} {
	h.grant.mu.Lock()
	defer h.grant.mu.Unlock()
	if a := h.asked(); a != nil {
		return a.done
	}
	return closed
}

// AfterEnd calls f when the hold has ended, at once if it has, unless stop is called before.
func (h *Hold) AfterEnd(f func()) (stop func()) {
	mu := &h.grant.mu
	mu.Lock()
	alive := h.ended == keepalive.Alive
	if alive {
		h.asked().after[&f] = struct{}{}
	}
	mu.Unlock()
	if !alive {
		f()
	}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if h.ended == keepalive.Alive { // else the end is being told
			delete(h.audience.after, &f)
		}
	}
}

// finish ends the hold and tells that; or waits for so long until it is told, because Lost comes before Released.
func (h *Hold) finish(r keepalive.Reason, wait time.Duration) {
	h.grant.mu.Lock()
	was := h.ended
	h.ended = cmp.Or(was, r)
	h.grant.mu.Unlock()
	if was != keepalive.Alive {
		for end := time.Now().Add(wait); !h.told.Load() && time.Now().Before(end); {
			time.Sleep(100 * time.Microsecond)
		}
		return
	}
	defer h.told.Store(true)
	h.audience.tell()
	if r != keepalive.Unlocked {
		h.grant.key.engine.Lost[r].Add(1)
		h.Observer.Lost(r)
	}
}

// Extend makes the hold last for ttl from now on, at least. It returns how the hold has ended, if it has.
func (h *Hold) Extend(ctx context.Context, ttl time.Duration) (keepalive.Reason, *quorum.Failure) {
	g := h.grant
	g.over.Store(true) // before the look at the hold: so either this finds that it was parked, or park finds this
	if r := h.Reason(); r != keepalive.Alive {
		return r, nil
	}
	var failure *quorum.Failure
	g.key.engine.quorum.Extend(ctx, []*quorum.Extension{{Votes: &g.votes, TTL: ttl, Until: g.lease.Until(), Done: func(f *quorum.Failure, until time.Time) {
		failure = f
		g.extended(f, until, ttl)
	}}})
	return h.Reason(), failure
}

// Release ends the hold now, before it asks the servers. It returns Unlocked, or how the lock had been lost before; and the
// failure of the servers to release the lock. A grant that may have another hold is parked for that.
func (h *Hold) Release(ctx context.Context, now time.Time) (keepalive.Reason, *quorum.Failure) {
	g := h.grant
	if g.reuse != nil && g.park(h, now) {
		return h.Reason(), nil
	}
	return h.end(ctx, now, func(keep time.Time) *quorum.Failure { return g.votes.Release(ctx, now, keep) })
}

// end ends the hold now. If it was the last one of the grant, that ends, and then release is called: with keep, the lock is to
// stay locked until then.
func (h *Hold) end(ctx context.Context, now time.Time, release func(keep time.Time) *quorum.Failure) (keepalive.Reason, *quorum.Failure) {
	g := h.grant
	g.mu.Lock()
	g.remove(h)
	last := g.holds == nil
	if last {
		g.close()
	}
	g.mu.Unlock()
	if !last { // another hold has come since the grant was to be released; or shares it, and it is lost
		h.finish(cmp.Or(g.lease.Reason(), keepalive.Unlocked), g.terms().Timeout)
		return h.Reason(), nil
	}
	defer func() {
		if g.turn.Swap(false) { // a Downgrade may do so at the same time
			g.key.pass()
		}
		g.key.unref()
	}()
	var keep time.Time // until then the lock stays locked; zero: it is released now, as a writer that was downgraded always is
	if end := g.votes.At.Add(g.terms().MinHold); end.After(now) && !g.kind().Shared {
		keep = end
	}
	if was := g.lease.End(keepalive.Unlocked, now); was != keepalive.Unlocked {
		h.finish(was, g.terms().Timeout) // at once: the keep-alive may not have told it yet, and the servers may be slow
		// The loss is final. What is left of the lock is released, such as the other keys of a MutexAll. A lease expires if
		// the servers are silent: then nothing is waited for.
		if was == keepalive.Expired {
			g.votes.ReleaseLater(keep)
		} else {
			g.votes.Release(ctx, now, keep)
		}
		return was, nil
	}
	h.finish(keepalive.Unlocked, g.terms().Timeout) // before another process can have the lock
	f := release(keep)
	if r := lost(f); r != keepalive.Alive {
		g.lostKey.Store(int32(f.Which))
		g.key.engine.Lost[r].Add(1)
		h.Observer.Lost(r)
		return r, nil
	}
	return keepalive.Unlocked, f
}
