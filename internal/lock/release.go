package lock

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
)

// Release ends the hold now. It returns Unlocked, or how the hold had ended before; and the failure of the
// servers to release the lock. A grant that may have another hold is parked for that.
func (h *Hold) Release(ctx context.Context, now time.Time) (keepalive.Reason, *quorum.Failure) {
	g := h.grant
	if g.park(h, now) {
		return h.Reason(), nil
	}
	if !g.last(h) {
		return h.Reason(), nil
	}
	defer g.leave()
	var keep time.Time
	if end := g.votes.At.Add(g.terms.MinHold); end.After(now) && (g.turn.Load() || !g.terms.Kind.Shows) {
		keep = end // but not for a writer that has become a reader
	}
	if was := g.lease.End(now); was != keepalive.Unlocked {
		// Nothing of what the servers say can change that; what is left of the lock there is released. After Close
		// there is no background, so that is done here, as far as it can be.
		if was == keepalive.Closed {
			g.votes.Release(withoutEnd(ctx), now, keep)
		} else {
			g.votes.ReleaseLater(keep)
		}
		h.lose(was) // the keep-alive may be about to
		return was, nil
	}
	f := g.votes.Release(withoutEnd(ctx), now, keep)
	if r := lost(f); r != keepalive.Alive {
		g.lostKey.Store(&f.Key)
		h.lose(r)
		return r, nil
	}
	h.end(keepalive.Unlocked)
	return keepalive.Unlocked, f
}

// last takes h out of the holds, and reports whether it was the last one, so that the caller has to release the lock.
func (g *Grant) last(h *Hold) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(h)
	if g.holds != nil || g.released {
		return false
	}
	g.close()
	return true
}

// leave gives up what a grant has in this process, after its release.
func (g *Grant) leave() {
	if !g.terms.Kind.Shared {
		g.key.follow(g.votes)
	}
	if g.turn.Swap(false) { // a Downgrade may do so at the same time
		g.key.pass()
	}
	g.key.unref()
}

// withoutEnd returns ctx, or one that does not end if ctx has ended already.
func withoutEnd(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}
