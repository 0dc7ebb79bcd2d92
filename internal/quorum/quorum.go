// Package quorum makes one vote of N servers: the Redlock algorithm
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/), of which a single
// server is the case N = 1. It knows nothing of goroutines that share a lock, nor of renewal.
package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/server"
	"github.com/redimutex/redimutex/internal/underway"
)

// A Quorum decides by majority over its servers.
type Quorum struct {
	nodes           []*node
	*underway.Count // each operation, and each goroutine of this package
}

// MaxServers is how many servers there may be.
const MaxServers = 64

// New returns the Quorum over servers.
func New(servers []*server.Server) *Quorum {
	q := &Quorum{nodes: make([]*node, len(servers)), Count: underway.New()}
	for i, s := range servers {
		q.nodes[i] = &node{Server: s}
	}
	return q
}

// Size is the number of servers.
func (q *Quorum) Size() int { return len(q.nodes) }

// Failures returns how many operations have failed on each server. Those that were cut short by
// their caller's ctx do not count.
func (q *Quorum) Failures() []int64 {
	all := make([]int64, len(q.nodes))
	for i, n := range q.nodes {
		all[i] = n.failed.Load()
	}
	return all
}

// InUse asks the only server how many permits of a semaphore are in use.
func (q *Quorum) InUse(ctx context.Context, l *server.Lock) (int, *Failure) {
	q.Enter()
	defer q.Leave()
	if q.Closing() {
		return 0, unavailable(len(q.nodes), errClosed)
	}
	permits, reply := q.nodes[0].InUse(ctx, l)
	return permits, q.nodes[0].outcome(ctx, l, reply)
}

// Drift is what a lease of ttl loses to clocks that run at different speeds: 1% and 2 ms.
func Drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// Left is what is left until then by the clock that has less: while the machine sleeps, the monotonic one of most
// systems stands still.
func Left(until, now time.Time) time.Duration {
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}

// Close waits until the operations under way are over, also those that no caller waits for any more,
// and closes the servers, which try once more to release what is left. All of it takes d at most, and
// the operations no more than half of that.
func (q *Quorum) Close(d time.Duration) {
	end := time.Now().Add(d)
	q.Wait(d / 2)
	var closing sync.WaitGroup
	for _, n := range q.nodes {
		closing.Go(func() { n.Close(time.Until(end)) })
	}
	closing.Wait()
}

// ended reports whether ctx is over, also when its own timer has not fired yet.
func ended(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// detached is ctx without its end. With several servers the caller leaves when its ctx ends; what it
// has asked goes on to the node timeout, so that no connection is broken by a caller that has what it
// wanted from the others.
func detached(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}
