package lock

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
)

// A Hold is one hold of a lock, from Lock to Unlock. A grant may see many: one after the other or, if several may hold the
// kind, at the same time. A caller gives Engine.Lock a Hold with only its Observer, and Lock fills in the rest.
type Hold struct {
	Observer Observer
	grant    *Grant
	after    time.Duration // how long it began after the lock was won

	// Guarded by the mu of the grant, except told.
	next     *Hold            // next hold of the same grant
	ended    keepalive.Reason // Alive until the end has been noticed
	told     atomic.Bool      // the audience and the Observer know of the end
	audience *audience        // learns of the end, and does not change after it; nil: no caller has asked for it
}

// An Observer is told what happens to a call, and to its Hold, on the goroutine to which it happens.
type Observer interface {
	Waiting(ctx context.Context)
	Tried(ctx context.Context, tries int, wait time.Duration, f *quorum.Failure) // a try has failed
	Unavailable(f *quorum.Failure)                                               // too few servers answered; the try is repeated
	Renewed(f *quorum.Failure)
	Lost(r keepalive.Reason)
	LostIdle(r keepalive.Reason) // the lock was lost while it was parked; this hold, the last one, had ended well
}

// An audience is all that must learn that a hold has ended. A nil audience is empty.
type audience struct {
	done  chan struct{}
	after map[*func()]struct{}
}

func (a *audience) tell() {
	if a == nil {
		return
	}
	for f := range a.after { // first: a caller that sees Done closed finds its contexts cancelled
		(*f)()
	}
	close(a.done)
}

// closed is the Done channel of a hold that ended before any caller asked for one.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (h *Hold) Token() string    { return h.grant.Token() }
func (h *Hold) Fence() int64     { return h.grant.votes.Fence }
func (h *Hold) Began() time.Time { return h.grant.votes.At.Add(h.after) }
func (h *Hold) Until() time.Time { return h.grant.lease.Until() }
func (h *Hold) LostKey() int     { return int(h.grant.lostKey.Load()) }

// Reason returns how the hold has ended, or Alive. It asks the clock.
func (h *Hold) Reason() keepalive.Reason {
	if r := h.noticed(); r != keepalive.Alive {
		return r
	}
	return h.grant.lease.Reason()
}

// noticed returns how the hold has ended, or Alive if no end has been recorded. It does not ask the clock.
func (h *Hold) noticed() keepalive.Reason {
	h.grant.mu.Lock()
	defer h.grant.mu.Unlock()
	return h.ended
}

// asked returns the audience, made if needed; nil: the hold ended before any caller asked. The caller holds the grant's mu.
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

// AfterEnd calls f when the hold ends, unless stop is called before. If the hold has ended already, it calls f at once.
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
		if h.ended == keepalive.Alive { // otherwise the end is being told, or was
			delete(h.audience.after, &f)
		}
	}
}

// finish ends the hold and tells that to its audience and its Observer. If the hold had ended already, finish waits until that
// is told, for wait at most, because Lost comes before Released.
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

// Extend makes the hold last for at least ttl from now. It returns how the hold has ended, or Alive.
func (h *Hold) Extend(ctx context.Context, ttl time.Duration) (keepalive.Reason, *quorum.Failure) {
	g := h.grant
	g.noMoreHolds.Store(true) // before it looks at the hold: so either Extend sees that park ended the hold, or park sees this
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

// Release ends the hold now, before it asks the servers. It returns Unlocked, or how the lock was lost; and why the servers
// failed to release it, if they did. If the grant may have another hold, Release parks the grant instead.
func (h *Hold) Release(ctx context.Context, now time.Time) (keepalive.Reason, *quorum.Failure) {
	g := h.grant
	if g.reuse != nil && g.park(h, now) {
		return h.Reason(), nil
	}
	return h.end(ctx, now, func(keep time.Time) *quorum.Failure { return g.votes.Release(ctx, now, keep) })
}

// end ends the hold now. If it was the last hold of the grant, end also ends the grant and, unless it was lost, calls release.
// If keep is not zero, the lock has to stay locked until keep.
func (h *Hold) end(ctx context.Context, now time.Time, release func(keep time.Time) *quorum.Failure) (keepalive.Reason, *quorum.Failure) {
	g := h.grant
	g.mu.Lock()
	g.remove(h)
	last := g.holds == nil
	if last {
		g.close()
	}
	g.mu.Unlock()
	if !last { // another hold has joined since the grant was to be released; or shares it, and the grant is lost
		h.finish(cmp.Or(g.lease.Reason(), keepalive.Unlocked), g.terms().Timeout)
		return h.Reason(), nil
	}
	defer func() {
		if g.turn.Swap(false) { // a Downgrade may pass it on at the same time
			g.key.pass()
		}
		g.key.unref()
	}()
	var keep time.Time // the lock stays locked until then; zero: it is released now, as a downgraded writer always is
	if end := g.votes.At.Add(g.terms().MinHold); end.After(now) && !g.kind().Shared {
		keep = end
	}
	if was := g.lease.End(keepalive.Unlocked, now); was != keepalive.Unlocked {
		h.finish(was, g.terms().Timeout) // now: the keep-alive may not have told it yet, and the servers may be slow
		// The loss is final. The rest of the lock is released, such as the other keys of a MutexAll. A lease expires when the
		// servers are silent: then end does not wait for them.
		if was == keepalive.Expired {
			g.votes.ReleaseLater(keep)
		} else {
			g.votes.Release(ctx, now, keep)
		}
		return was, nil
	}
	h.finish(keepalive.Unlocked, g.terms().Timeout) // before another process can get the lock
	f := release(keep)
	if r := lost(f); r != keepalive.Alive {
		g.lostKey.Store(int32(f.Which))
		g.key.engine.Lost[r].Add(1)
		h.Observer.Lost(r)
		return r, nil
	}
	return keepalive.Unlocked, f
}
