package lock

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
)

// Extend makes the hold last for ttl from now on. It returns how the hold has ended, if it has.
func (h *Hold) Extend(ctx context.Context, ttl time.Duration) (keepalive.Reason, *quorum.Failure) {
	g := h.grant
	g.over.Store(true) // before the look at the hold: whoever ends it looks at this after that
	if r := h.Reason(); r != keepalive.Alive {
		return r, nil
	}
	asked := time.Now()
	raise(&g.open, asked.Add(g.terms.bound()).Sub(g.won.At))
	x := quorum.Extension{
		Extension: g.terms.extension(g.key.name, g.token, ttl),
		Regain:    g.regain(ttl),
		Won:       g.won,
	}
	var outcome quorum.Extended
	x.Done = func(o quorum.Extended) { outcome = o }
	raise(&g.longest, ttl)
	g.key.engine.quorum.Extend(ctx, []*quorum.Extension{&x})
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
