package lock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A Grant is one lock on the servers.
//
//	live ⇄ parked → released
//	  └ any of these → lost: expired, deleted, taken, closed
//
// It is complete before the keep-alive knows it, and is changed after that by its own methods only. Extensions
// and ends of holds concern one hold; a grant may see many.
type Grant struct {
	key    *Key
	terms  *Terms
	token  string
	ticket *server.Ticket // under which several servers may have us in their queues, or nil
	won    quorum.Grant
	lease  keepalive.Lease
	hold   atomic.Pointer[Hold] // the present one; the last one while parked

	longest  atomic.Int64                       // the longest TTL that was asked for
	open     atomic.Int64                       // how long after it was won an extension of the holder's may be executed
	regained atomic.Int64                       // how long after it was won a server may take it again
	renewal  atomic.Pointer[chan struct{}]      // one that is under way; closed when it is over
	shorter  atomic.Pointer[quorum.Shortenings] // nil until somebody shortens

	// For the holds that follow; see park.go.
	over  atomic.Bool // there is none: the time is over, or somebody has begun to extend the lock
	reuse *reuse      // nil: none from the beginning
}

// newGrant begins the life of a grant with its first hold. handOff is more than 0 if that is all that was
// given. It returns nil if the Engine is closed.
func newGrant(k *Key, t *Terms, token string, ticket *server.Ticket, won quorum.Grant, handOff time.Duration, h *Hold) *Grant {
	g := &Grant{key: k, terms: t, token: token, ticket: ticket, won: won}
	g.longest.Store(int64(t.TTL))
	g.mayPark(handOff)
	h.grant, h.fence = g, won.Fence
	g.hold.Store(h)
	if !k.engine.keeper.Start(&g.lease, keepalive.Terms{
		Began: won.At, Until: won.Until(), TTL: t.TTL, Renew: t.Renew, HandOff: handOff, MaxHold: t.MaxHold, Holder: g,
	}) {
		return nil
	}
	k.grant.Store(g)
	return g
}

// renew extends the grants that are due. Those whose terms allow it share a round trip.
func (e *Engine) renew(due []*keepalive.Lease) {
	type terms struct {
		timeout  time.Duration
		replicas server.Replicas
	}
	groups := make(map[terms][]*quorum.Extension)
	for _, l := range due {
		asked := time.Now()
		g := l.Holder().(*Grant)
		ttl := g.shorter.Load().Most(l.TTL())
		over := make(chan struct{})
		g.renewal.Store(&over)
		if l.Reason() != keepalive.Alive { // since it was handed out
			close(over)
			l.Renewed(false)
			continue
		}
		x := &quorum.Extension{
			Extension: g.terms.extension(g.key.name, g.token, ttl),
			Regain:    g.regain(ttl),
			Won:       g.won,
			Unsure:    g.shorter.Load().Unsure(ttl),
			Done: func(x quorum.Extended) {
				defer close(over)
				g.renewed(&x, asked, ttl)
			},
		}
		t := terms{x.Timeout, x.Replicas}
		groups[t] = append(groups[t], x)
	}
	var all sync.WaitGroup
	for _, batch := range groups {
		all.Go(func() { e.quorum.Extend(context.Background(), batch) })
	}
	all.Wait()
}

// renewed records the outcome of a renewal.
func (g *Grant) renewed(x *quorum.Extended, asked time.Time, ttl time.Duration) {
	defer g.lease.Renewed(x.Failure == nil)
	if x.Failure == nil {
		g.lease.Extended(asked, x.Until, ttl)
	}
	h := g.hold.Load()
	if g.lease.Reason() == keepalive.Unlocked || g.lose(x.Failure) {
		return
	}
	g.count(x.Failure)
	if h.Observer.Traced() && !h.ended() {
		h.Observer.Renewed(x.Failure)
	}
}

func (g *Grant) count(f *quorum.Failure) {
	if f == nil {
		g.key.engine.Renewed.Add(1)
	} else {
		g.key.engine.NotRenewed.Add(1)
	}
}

// lost returns how the lock was lost that the servers say so of.
func lost(f *quorum.Failure) keepalive.Reason {
	switch {
	case f == nil:
	case f.Kind == quorum.Missing:
		return keepalive.Deleted
	case f.Kind == quorum.Taken:
		return keepalive.Taken
	}
	return keepalive.Alive
}

// lose ends the grant if f says that it is lost, and reports whether it does.
func (g *Grant) lose(f *quorum.Failure) bool {
	r := lost(f)
	if r != keepalive.Alive {
		g.lease.Lose(r)
	}
	return r != keepalive.Alive
}

// Lost is called by the keep-alive: this is where a lock is declared lost.
func (g *Grant) Lost(r keepalive.Reason) {
	g.hold.Load().lose(r)
	g.unpark()
}

// regain returns how a server that has lost the lock takes it again, after a majority has extended it to ttl. A
// single server has no majority to join.
func (g *Grant) regain(ttl time.Duration) func(i int) (*server.Try, int64) {
	if !g.key.engine.Several() {
		return nil
	}
	return func(i int) (*server.Try, int64) {
		if !g.won.Clean(i) {
			return nil, 0
		}
		now := time.Now()
		// Before the look at the lease: whoever ends it looks at this after that.
		raise(&g.regained, now.Add(g.terms.bound()).Sub(g.won.At))
		if g.lease.Reason() != keepalive.Alive {
			return nil, 0
		}
		t := g.terms.try(g.key.name, g.token)
		t.Start, t.TTL, t.Regain, t.Queue, t.Fences = now, ttl, true, false, min(t.Fences, 1)
		return &t, g.won.Fence
	}
}

// awaitRenewal waits until a renewal that was under way is over, so that none runs after the release; but no longer
// than half of the time that the release has. It reports whether none is.
func (g *Grant) awaitRenewal(ctx context.Context) bool {
	renewal := g.renewal.Load()
	if renewal == nil {
		return true
	}
	select {
	case <-*renewal:
		return true
	default:
	}
	timer := time.NewTimer(g.terms.NodeTimeout / 2)
	defer timer.Stop()
	select {
	case <-*renewal:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// raise makes x d at least, whoever else does that now.
func raise(x *atomic.Int64, d time.Duration) {
	for old := x.Load(); old < int64(d) && !x.CompareAndSwap(old, int64(d)); old = x.Load() {
	}
}
