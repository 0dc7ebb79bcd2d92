package lock

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// Release ends the hold now. It returns Unlocked, or how the hold had ended before; and the failure of the
// servers to give the lock back. A grant that may have another hold is parked for that.
func (h *Hold) Release(ctx context.Context, now time.Time) (keepalive.Reason, *quorum.Failure) {
	g := h.grant
	if g.park(h, now) {
		return keepalive.Unlocked, nil
	}
	defer g.key.unref()
	defer g.key.pass()
	g.stopTimer()
	if was := g.lease.End(now); was != keepalive.Unlocked {
		// Nothing of what the servers say can change that; what is left of the lock there is cleaned up. After Close
		// there is no background, so that is done here, as far as it can be.
		if r := g.release(now); was == keepalive.Closed {
			g.key.engine.quorum.Release(withoutEnd(ctx), &r, g.won)
		} else {
			g.key.engine.quorum.Undo(&r, g.won)
		}
		h.lose(was) // the keep-alive may be about to
		return was, nil
	}
	f := g.giveBack(withoutEnd(ctx), now)
	if r := lost(f); r != keepalive.Alive {
		h.lose(r)
		return r, nil
	}
	h.end(keepalive.Unlocked)
	return keepalive.Unlocked, f
}

// withoutEnd returns ctx, or one that does not end if ctx has ended already.
func withoutEnd(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// giveBack releases the lock on the servers. The lease has ended.
func (g *Grant) giveBack(ctx context.Context, now time.Time) *quorum.Failure {
	renewing := !g.awaitRenewal(ctx)
	r := g.release(now)
	r.Start = now
	tail, f := g.key.engine.quorum.Release(ctx, &r, g.won)
	if tail != nil {
		g.key.follow(tail)
	}
	if open := g.won.At.Add(time.Duration(g.open.Load())); r.Keep > 0 && (renewing || time.Now().Before(open)) {
		r.Open = time.Now().Add(g.terms.bound()) // until then an extension may raise the expiry again
	}
	if !r.Open.IsZero() && time.Now().Before(r.Open) {
		g.key.engine.quorum.Undo(&r, g.won)
	}
	return f
}

// release describes the release of the grant.
func (g *Grant) release(now time.Time) server.Release {
	r := g.terms.release(g.key.name, g.token, now, time.Duration(g.longest.Load()))
	if g.terms.MinHold > 0 {
		if rest := g.terms.MinHold - time.Since(g.won.At); rest > 0 {
			r.Keep = max(rest, time.Millisecond)
		}
	}
	if d := time.Duration(g.regained.Load()); d > 0 {
		r.Open = g.won.At.Add(d)
	}
	return r
}
