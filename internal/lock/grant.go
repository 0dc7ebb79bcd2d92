package lock

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A Grant is one lock on the servers, or one that is being asked for.
//
//	wanted → live ⇄ parked → released
//	  │       └ any of these → lost: expired, deleted, taken, closed
//	  └ not granted, or not needed → released
//
// A Grant is complete before the keep-alive knows it. After that only its own methods change it. A grant may see many holds.
// An Extend, or the end of a hold, concerns that hold alone.
type Grant struct {
	key   *Key
	votes quorum.Votes
	lease keepalive.Lease

	turn        atomic.Bool  // it has the turn of its line, and passes it on at the end
	noMoreHolds atomic.Bool  // no hold may follow: the time for reuse is over, or a holder has begun to change the lock
	lostKey     atomic.Int32 // which of the keys the servers have lost, as far as known

	released bool // or about to be: no hold may begin; guarded by mu, and placed in the padding before it
	mu       sync.Mutex
	holds    *Hold  // the current ones, linked; at most one if the kind is not shared; guarded by mu
	reuse    *reuse // nil without Terms.Reuse: the grant has one hold and no other
}

// newGrant returns a grant with a new token, for which the servers have still to be asked.
func (k *Key) newGrant(c *Call) *Grant {
	g, extras := &Grant{key: k}, server.NoExtras
	waits := !c.Once && (c.Terms.Queue || c.Terms.Kind.Shows)
	if waits || len(c.More) > 0 {
		extras = &server.Extras{More: c.More}
	}
	if waits {
		extras.Channel, extras.HandOff = k.engine.hub.Channel(), handOff(c.Terms, k.engine.servers[0].RTT())
	}
	k.engine.quorum.Claim(&g.votes, server.Lock{Terms: c.Terms, Key: c.Key, Token: c.Terms.Token(), Extras: extras})
	return g
}

// start begins the life of a grant, with h as its first hold. If handOff is more than 0, only that much time was given. If
// turn is true, the grant takes over the turn of the caller. start reports false if the Engine is closed.
func (g *Grant) start(handOff time.Duration, turn bool, h *Hold) bool {
	k, t := g.key, g.terms()
	g.holds, h.grant = h, g
	g.turn.Store(turn)
	if t.Reuse > 0 {
		k.engine.reuses.Store(true)
		whole := cmp.Or(handOff, t.TTL) // the last hold, too, must begin with half of the validity
		g.reuse = &reuse{until: g.votes.At.Add(min(t.Reuse, g.votes.Valid-quorum.Validity(whole)/2))}
	}
	if !k.engine.keeper.Start(&g.lease, keepalive.Terms{
		Began: g.votes.At, Until: g.votes.Until(), TTL: t.TTL, Renew: t.Renew, HandOff: handOff, MaxHold: t.MaxHold, Holder: g,
	}) {
		return false
	}
	// Holds of the previous grant keep that grant. The last of them releases it.
	if before := k.grant.Swap(g); before != nil {
		before.expire()
	}
	return true
}

func (g *Grant) terms() *server.Terms { return g.votes.Spec().Terms }
func (g *Grant) Token() string        { return g.votes.Spec().Token }

// kind returns the kind of the lock now: a writer may have become a reader.
func (g *Grant) kind() *server.Kind {
	if g.terms().Kind == server.Writer && !g.turn.Load() {
		return server.Reader
	}
	return g.terms().Kind
}

// remove takes h out of the holds. The caller holds g.mu.
func (g *Grant) remove(h *Hold) {
	for p := &g.holds; *p != nil; p = &(*p).next {
		if *p == h {
			*p, h.next = h.next, nil
			return
		}
	}
}

// close ends the grant for good. The caller holds g.mu, and must release the lock.
func (g *Grant) close() {
	g.released = true
	g.key.grant.CompareAndSwap(g, nil)
	if g.reuse != nil && g.reuse.timer != nil {
		g.reuse.timer.Stop()
	}
}

// current returns the holds, and whether the lock is released, so that no other hold can begin.
func (g *Grant) current() (holds []*Hold, released bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for h := g.holds; h != nil; h = h.next {
		holds = append(holds, h)
	}
	return holds, g.released
}

// atOnce limits how many leases are renewed together, and how many readers enter together. A slow server can answer this many
// within the node timeout. A larger batch may be late as a whole, each time that it is repeated.
const atOnce = 1000

// renew extends the grants that are due, sorted by their end. Each part has its own bound.
func (e *Engine) renew(due []*keepalive.Lease) {
	for part := range slices.Chunk(due, atOnce) {
		batch := make([]*quorum.Extension, 0, len(part))
		for _, l := range part {
			if l.Reason() != keepalive.Alive { // it has ended since it was handed out
				l.Renewed()
				continue
			}
			g := l.Holder().(*Grant)
			batch = append(batch, &quorum.Extension{Votes: &g.votes, TTL: l.TTL(), Until: l.Until(), Done: func(f *quorum.Failure, until time.Time) {
				g.extended(f, until, 0)
				l.Renewed()
			}})
		}
		e.quorum.Extend(context.Background(), batch)
	}
}

// extended records the outcome of an extension. On success renewals ask for ttl from now on; 0: for the TTL as before.
func (g *Grant) extended(f *quorum.Failure, until time.Time, ttl time.Duration) {
	counter := &g.key.engine.NotRenewed
	if f == nil {
		g.lease.Extended(until, ttl)
		counter = &g.key.engine.Renewed
	}
	if g.lease.Reason() == keepalive.Unlocked || g.lose(f) {
		return
	}
	counter.Add(1)
	holds, _ := g.current()
	for _, h := range holds {
		if h.noticed() == keepalive.Alive {
			h.Observer.Renewed(f)
		}
	}
}

// lost returns how the lock was lost according to the servers, or Alive.
func lost(f *quorum.Failure) keepalive.Reason {
	switch {
	case f != nil && f.Kind == quorum.Missing:
		return keepalive.Deleted
	case f != nil && f.Kind == quorum.Taken:
		return keepalive.Taken
	}
	return keepalive.Alive
}

// lose ends the grant if f says that the lock is lost, and reports whether f says so.
func (g *Grant) lose(f *quorum.Failure) bool {
	r := lost(f)
	if r != keepalive.Alive && !g.lease.Ended() {
		g.lostKey.Store(int32(f.Which))
		g.lease.End(r, time.Now())
	}
	return r != keepalive.Alive
}

// Lost is called by the keep-alive. Here a lock is declared lost.
func (g *Grant) Lost(r keepalive.Reason) {
	g.votes.Each((*server.Claim).End)
	holds, _ := g.current()
	for _, h := range holds {
		h.finish(r, 0)
	}
	g.unpark()
}

func votes(grants []*Grant) (votes []*quorum.Votes) {
	for _, g := range grants {
		votes = append(votes, &g.votes)
	}
	return votes
}
