package lock

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
)

// Extend makes the hold last for ttl from now on, at least. It returns how the hold has ended, if it has.
func (h *Hold) Extend(ctx context.Context, ttl time.Duration) (keepalive.Reason, *quorum.Failure) {
	g := h.grant
	g.over.Store(true) // before the look at the hold: a release looks at this after it has ended the hold
	if r := h.Reason(); r != keepalive.Alive {
		return r, nil
	}
	var outcome quorum.Extended
	g.key.engine.quorum.Extend(ctx, []*quorum.Extension{
		{Votes: g.votes, TTL: ttl, Done: func(o quorum.Extended) { outcome = o }},
	})
	f := outcome.Failure
	if f == nil {
		g.lease.Extended(outcome.Until, ttl)
		g.lease.Ask(ttl)
	}
	if !g.lose(f) && !h.ended() {
		g.count(f)
		if h.Observer.Traced() {
			h.Observer.Renewed(f)
		}
	}
	return h.Reason(), f
}
