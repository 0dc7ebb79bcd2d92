// Package quorum makes one vote of N servers: the Redlock algorithm
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/), of which a single
// server is the case N = 1. It knows nothing of goroutines that share a lock, nor of renewal.
package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// A Quorum decides by majority over its servers.
type Quorum struct {
	nodes  []*node
	need   int       // a majority: any two of them have a server in common
	rounds sync.Pool // finished rounds, for the next operation; every lock takes two of them
}

// New returns the Quorum over the servers behind pools.
func New(pools []server.Pool) *Quorum {
	q := &Quorum{nodes: make([]*node, len(pools)), need: len(pools)/2 + 1}
	q.rounds.New = q.freshRound
	for i, p := range pools {
		q.nodes[i] = &node{Server: server.New(p), peers: len(pools) > 1}
	}
	return q
}

// Servers returns the servers, in order.
func (q *Quorum) Servers() []*server.Server {
	all := make([]*server.Server, len(q.nodes))
	for i, n := range q.nodes {
		all[i] = n.Server
	}
	return all
}

// Size is the number of servers.
func (q *Quorum) Size() int { return len(q.nodes) }

// Failures returns how many operations have failed on each server.
func (q *Quorum) Failures() []int64 {
	all := make([]int64, len(q.nodes))
	for i, n := range q.nodes {
		all[i] = n.failed.Load()
	}
	return all
}

// Close waits until the operations under way are over, and stops the clean-up in the background
// after a last attempt. Each of the two takes d at most.
func (q *Quorum) Close(d time.Duration) {
	var closing sync.WaitGroup
	for _, n := range q.nodes {
		closing.Go(func() { n.close(d) })
	}
	closing.Wait()
}

// Drift is what a lease of ttl loses to clocks that run at different speeds: 1% and 2 ms.
func Drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// A Grant is a lock that a quorum has given.
type Grant struct {
	At    time.Time // when it was given
	Until time.Time // valid until
	Fence int64     // with fencing

	Timely bool   // the fence is the server's clock; not with several servers
	late   *round // tries that were still under way when the quorum was reached
}

// Acquire tries once to take the lock on a majority of the servers. It returns as soon as the
// matter is decided, and the clean-up of a failed try goes on in the background. If ctx ends
// first, the try counts as failed. The error is a *Failure.
func (q *Quorum) Acquire(ctx context.Context, req *server.Request) (Grant, error) {
	if q.direct(ctx) {
		return q.acquireDirect(req)
	}
	r := q.newRound(req, true)
	r.req.Plain = false
	q.each(r, q.absent(), acquire)
	r.await(ctx)
	g, err := q.settle(ctx, r)
	if err != nil {
		return Grant{}, err
	}
	if req.Fencing && len(q.nodes) > 1 {
		err = q.raise(ctx, req, g.Fence)
	}
	if err == nil {
		err = g.fresh(req)
	}
	if err != nil {
		q.Sweep(req, g)
		return Grant{}, err
	}
	return g, nil
}

// fresh completes the grant, or returns an error if less than half of the validity is left.
func (g *Grant) fresh(req *server.Request) error {
	g.At = time.Now()
	if g.Until.Sub(g.At) < (req.TTL-Drift(req.TTL))/2 {
		return &Failure{Kind: Unavailable, Nodes: []NodeFailure{{Err: errSlow}}}
	}
	return nil
}

// settle ends the round of an acquisition: it reads the grant off it, or has what was granted
// given back.
func (q *Quorum) settle(ctx context.Context, r *round) (g Grant, err error) {
	r.mu.Lock()
	if !r.won() || ctx.Err() != nil { // cancellation wins ties
		defer r.close()
		for i, reply := range r.replies {
			if reply.Verdict == server.Done {
				q.nodes[i].Sweep(&r.req)
			}
		}
		if r.won() {
			return Grant{}, &Failure{Kind: Unavailable, Nodes: []NodeFailure{{Err: errGivenUp}}}
		}
		return Grant{}, r.lost()
	}
	g.Until, g.Fence = r.lease(r.req.TTL)
	g.Timely = len(q.nodes) == 1 && r.replies[0].Now == g.Fence
	if r.flying > 0 {
		g.late = r
		r.mu.Unlock()
		return g, nil
	}
	r.close()
	return g, nil
}

// raise writes the fence of a grant back to a majority, so that whoever is granted the lock next
// meets it on one server at least. All are told, also where a majority stands at the fence already:
// a server that had lost its counter counts as well when another loses its own.
func (q *Quorum) raise(ctx context.Context, req *server.Request, fence int64) error {
	r := q.newRound(req, false)
	q.each(r, q.absent(), func(n *node, req *server.Request) server.Reply { return n.Raise(req, fence) })
	r.await(ctx)
	return r.outcome()
}

func acquire(n *node, req *server.Request) server.Reply { return n.Acquire(req) }
func release(n *node, req *server.Request) server.Reply { return n.Release(req) }

// abandon tells the tries that are still under way that their lock is over. It returns which they
// are; they clean up after themselves.
func (g Grant) abandon() []bool {
	if g.late == nil {
		return nil
	}
	g.late.mu.Lock()
	defer g.late.mu.Unlock()
	g.late.over, g.late.past = true, true
	own := make([]bool, len(g.late.in))
	for i, in := range g.late.in {
		own[i] = !in
	}
	return own
}

// Sweep releases the lock everywhere, in the background.
func (q *Quorum) Sweep(req *server.Request, g Grant) {
	own := g.abandon()
	for i, n := range q.nodes {
		if own == nil || !own[i] {
			n.Sweep(req)
		}
	}
}

// Release gives the lock back on all servers and returns when a majority has. What remains goes on
// in the background, even if ctx ends. The error is a *Failure: Missing or Taken when the lock was
// not ours any more, Unavailable when too few servers answered.
func (q *Quorum) Release(ctx context.Context, req *server.Request, g Grant) error {
	if q.direct(ctx) && g.late == nil {
		return q.releaseDirect(req)
	}
	absent := q.absent()
	for i, own := range g.abandon() {
		if own {
			if absent == nil {
				absent = make([]error, len(q.nodes))
			}
			absent[i] = errLateTry
		}
	}
	r := q.newRound(req, false)
	q.each(r, absent, release)
	for i, err := range r.await(ctx) {
		if silent(err) {
			q.nodes[i].Sweep(req)
		}
	}
	return r.outcome()
}

// outcome tells what came of a release.
func (r *round) outcome() error {
	r.mu.Lock()
	defer r.close()
	return r.ended()
}
