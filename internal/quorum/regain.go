package quorum

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/redimutex/redimutex/internal/server"
)

// A server that restarts without its data, or that expired a lock because it could not be reached, has lost its
// vote for the lock. After an extension that a majority has confirmed it is asked for its vote again, by a try like
// any other: with a deadline, behind the restart guard, and for nothing if it has another holder's token. So a lock
// that is held for long outlives servers that restart one after the other.
//
// It is safe because the vote is regained only behind a majority that has confirmed the lock just now: while that
// lasts, nobody else can have one, with or without this server. It counts for nothing until the next extension has
// found it. After a round that was missed another may hold the lock, so nothing is regained.

// A server to which a try of the same token was sent that it has not answered has no vote for that token any more: the
// undo of the try may be executed at any time, and would take back what an extension has counted since.

// MaxServers is how many servers there may be: as many as a clean has bits.
const MaxServers = 64

// A clean tells the servers, a bit each, on which nothing can undo the token of a try.
type clean struct{ atomic.Uint64 }

func newBallot(after *Tail) *ballot {
	b := &ballot{after: after}
	b.clean.Store(math.MaxUint64) // nobody has been asked
	return b
}

func (c *clean) clear(i int) { c.And(^(1 << uint(i))) }

func (c *clean) set(i int) { c.Or(1 << uint(i)) }

// Clean reports whether nothing can undo the lock on server i before its release.
func (g Grant) Clean(i int) bool {
	return g.ballot != nil && g.clean.Load()&(1<<uint(i)) != 0
}

// suspect reports whether the lock on server i may be undone at any time.
func (g Grant) suspect(i int) bool { return g.ballot != nil && !g.Clean(i) }

// missing are leases of a round that a server has lost.
type missing struct {
	mu     sync.Mutex
	leases []int
}

func (m *missing) add(k int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases = append(m.leases, k)
}

// regain asks server i to vote again for those of the leases that a majority has extended. It gives up when the server
// does not answer, or refuses for a reason that concerns all leases, such as that it is a replica: the next extension
// is soon, and a thousand leases must not knock a thousand times.
func (r *round) regain(i int, leases []int) {
	if len(leases) == 0 {
		return
	}
	n := r.home.nodes[i]
	<-r.told
	for _, k := range leases {
		if !r.extended(k) {
			continue
		}
		t, fence := r.batch[k].Regain(i)
		if t == nil {
			continue
		}
		if err := n.regain(r.ctx, t, fence); err != nil && !server.OfOneLock(err) {
			return
		}
	}
}

// regain asks n to vote again. It is told the fence first: a vote without that might give the next holder a lower one.
func (n *node) regain(ctx context.Context, t *server.Try, fence int64) error {
	if fence > 0 {
		if reply := n.Raise(ctx, t.Lock, fence, t.TTL); reply.Verdict != server.Done {
			return reply.Err
		}
	}
	began := n.begin()
	reply := n.Acquire(ctx, *t)
	n.end(began, !server.TimedOut(reply.Err))
	return reply.Err
}

// extended reports whether a majority has extended lease k.
func (r *round) extended(k int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.votes[k].won()
}
