package lock

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
)

// An Again repeats a HandOver, and finds what the first one did. It is nil if the hold was lost or had ended, or after Close.
type Again func(context.Context) *quorum.Failure

// HandOver ends the hold, whatever the servers answer, and puts token in its place for the TTL within. r: how it ended.
func (h *Hold) HandOver(ctx context.Context, token string, within time.Duration) (again Again, r keepalive.Reason, f *quorum.Failure) {
	g, now := h.grant, time.Now()
	g.noMoreHolds.Store(true)
	r, f = h.end(ctx, now, func(keep time.Time) *quorum.Failure {
		to := g.votes.InPlace(token, max(within, keep.Sub(now)+time.Millisecond)) // the server counts whole ms
		give := func(ctx context.Context) *quorum.Failure {
			f := g.votes.Give(ctx, to)
			if lost(f) != keepalive.Alive { // a minority may still have either token: both are released
				g.votes.ReleaseLater(keep)
				to.ReleaseLater(time.Time{})
			}
			return f
		}
		f := give(ctx)
		switch {
		case f != nil && f.Kind == quorum.Closed: // nothing was sent, and no repeat can send it
			g.votes.Release(ctx, now, keep)
		case lost(f) == keepalive.Alive:
			again = give
		}
		return f
	})
	return again, r, f
}

// A Taking is a TakeOver that has not succeeded yet. A repeat goes on with it.
type Taking struct {
	old   string // the token that is taken over
	grant *Grant
	taker *quorum.Taker
}

// TakeOver makes h a hold of the lock whose token is old, with a new fence. x is nil, or what the TakeOver before returned. x
// is used only if it is for the same token. TakeOver takes the turn if the turn is free. Otherwise a waiter of this process
// has the turn, and finds the lock taken on the servers.
func (e *Engine) TakeOver(ctx context.Context, c *Call, old string, x *Taking, h *Hold) (*Taking, *quorum.Failure) {
	if ctx.Err() != nil {
		return x, &quorum.Failure{Kind: quorum.Ended}
	}
	k := e.ref(c)
	if k == nil {
		return x, &quorum.Failure{Kind: quorum.Closed}
	}
	if x == nil || x.old != old || x.grant.votes.Spent() {
		g := k.newGrant(c)
		g.noMoreHolds.Store(true) // it is not kept for the next hold: that call may have the turn, and looks for the lock on the servers
		x = &Taking{old, g, g.votes.Taker(old)}
	}
	g := x.grant
	g.key = k
	turn := k.fifo.TryAcquire()
	if turn {
		k.last.Store(g.votes.Spec())
	}
	f := x.taker.Take(ctx, func() bool { return g.start(0, turn, h) })
	if f == nil {
		return nil, nil
	}
	if turn {
		k.pass()
	}
	k.unref()
	if lost(f) == keepalive.Alive && conn.Over(ctx) {
		return x, &quorum.Failure{Kind: quorum.Ended}
	}
	return x, f
}

// Downgrade makes a reader of a writer, in one step. An unknown outcome counts as done, because later commands find the token
// in either place. Downgrade returns how the hold has ended, or Alive.
func (h *Hold) Downgrade(ctx context.Context) (keepalive.Reason, *quorum.Failure) {
	g := h.grant
	g.noMoreHolds.Store(true)
	if r := h.Reason(); r != keepalive.Alive {
		return r, nil
	}
	f := g.votes.Downgrade(ctx)
	if g.lose(f) {
		return h.Reason(), f
	}
	if g.turn.Swap(false) {
		g.key.grant.CompareAndSwap(g, nil)
		g.key.pass()
	}
	return h.Reason(), f
}
