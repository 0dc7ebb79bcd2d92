// Package quorum makes one vote of N servers: the Redlock algorithm
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/), of which a single
// server is the case N = 1. It knows nothing of goroutines that share a lock, nor of renewal.
package quorum

import (
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/server"
	"github.com/redimutex/redimutex/internal/underway"
)

// A Quorum decides by majority over its servers.
type Quorum struct {
	servers        []*server.Server
	underway.Count // each operation, and each goroutine of this package
}

const MaxServers = 64

func New(servers []*server.Server) *Quorum { return &Quorum{servers: servers} }

// Outcome says what the reply of the only server comes to, about a lock that is held.
func Outcome(reply server.Reply) *Failure {
	if reply.Verdict == server.Done {
		return nil
	}
	return one(reply).outcome()
}

// Drift is what a lease of ttl loses to clocks that run at different speeds: 1% and 2 ms.
func Drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// Left is what is left until then by the clock that has less: the monotonic one of most systems stands still in a sleep.
func Left(until, now time.Time) time.Duration {
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}

// Close waits until the operations under way are over, also those that no caller waits for any more, and closes the servers,
// which try once more to release what is left. All of it takes d at most, and the operations no more than half of that.
func (q *Quorum) Close(d time.Duration) {
	end := time.Now().Add(d)
	q.Wait(d / 2)
	var closing sync.WaitGroup
	for _, s := range q.servers {
		closing.Go(func() { s.Close(time.Until(end)) })
	}
	closing.Wait()
}
