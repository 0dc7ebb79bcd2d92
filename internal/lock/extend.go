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
		Unsure:    g.shorter.Load().Unsure(ttl),
	}
	var outcome quorum.Extended
	x.Done = func(o quorum.Extended) { outcome = o }
	extend := func() *quorum.Failure {
		g.key.engine.quorum.Extend(ctx, []*quorum.Extension{&x})
		return outcome.Failure
	}
	var f *quorum.Failure
	if int64(ttl) < g.longest.Load() {
		f = g.shorten(&x, asked, extend)
	} else {
		raise(&g.longest, ttl)
		if f = extend(); f == nil && !g.lease.Extended(asked, outcome.Until, ttl) {
			f = g.key.engine.quorum.Overtaken()
		}
		if f == nil {
			g.lease.Ask(ttl)
		}
	}
	if !g.lose(f) && !h.ended() {
		g.count(f)
		if h.Observer.Traced() {
			h.Observer.Renewed(f)
		}
	}
	return h.Reason(), f
}

// shorten is Extend to less than a server may have. That may be executed at any time, also after it was given up, so
// the keep-alive is told before it is sent, and renewals ask for no more than it leaves as soon as they may come behind
// it.
func (g *Grant) shorten(x *quorum.Extension, asked time.Time, extend func() *quorum.Failure) *quorum.Failure {
	ttl := x.TTL
	g.shorter.CompareAndSwap(nil, new(quorum.Shortenings))
	x.Shorten, x.Shortening = true, g.shorter.Load().Begin(ttl, g.key.engine.quorum.Size())
	x.Deadline = asked.Add(min(g.terms.NodeTimeout, ttl/2)) // so that a renewal is in time that is sent after it
	until := asked.Add(ttl - drift(ttl))
	g.lease.Shorten(until, ttl)
	f := extend()
	if f == nil { // it may also be more than was left
		g.lease.Extended(asked, until, ttl)
	}
	open := x.Shortening.End() // before Shortened: what is asked for later knows of it, or is limited
	g.lease.Shortened()
	if f == nil || open {
		g.lease.Ask(ttl)
	}
	return f
}
