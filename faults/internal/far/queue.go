package far

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/faults/internal/load"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

// nodeTimeout is longer than the farthest round trip takes on a machine that is late.
const nodeTimeout = 2 * time.Second

// A member is a client that takes the lock again and again, and works under it.
type member struct {
	roundTrip time.Duration
	mutex     *redimutex.Mutex
}

// A queue has members that want one lock.
type queue struct {
	members []member
	load.Ledger

	mu     sync.Mutex
	turns  []turn // in order of their ends
	counts []int
}

// newQueue returns members with these round trips to the server.
func newQueue(t testing.TB, s *redistest.Server, key string, roundTrips ...time.Duration) *queue {
	q := &queue{counts: make([]int, len(roundTrips))}
	for _, rt := range roundTrips {
		var pool redimutex.Pool = s.Pool()
		if rt > 0 {
			pool = s.Far(rt / 2).Pool()
		}
		client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithQueue(),
			redimutex.WithNodeTimeout(nodeTimeout), redimutex.WithLogger(peers.Quiet))
		t.Cleanup(func() { client.Close() })
		q.members = append(q.members, member{rt, client.Mutex(key)})
	}
	return q
}

// run lets the members compete for d, or longer, until each has had this number of turns. It returns all turns.
func (q *queue) run(ctx context.Context, t testing.TB, d time.Duration, some int) []turn {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q.mu.Lock()
	q.turns, q.counts = nil, make([]int, len(q.members))
	q.mu.Unlock()
	var team sync.WaitGroup
	for i := range q.members {
		team.Go(func() { q.compete(ctx, t, i) })
	}
	evidence.Sleep(ctx, d)
	defer team.Wait()
	defer cancel()
	redistest.Wait(t, "each has had its turns", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return slices.Min(q.counts) >= some || ctx.Err() != nil
	})
	cancel()
	team.Wait()
	return q.turns
}

func (q *queue) compete(ctx context.Context, t testing.TB, who int) {
	m := q.members[who].mutex
	for ctx.Err() == nil {
		h, err := q.Acquire(ctx, m)
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		time.Sleep(work)
		q.Release(h)
		q.mu.Lock()
		q.turns = append(q.turns, turn{
			Who: who, RoundTrip: q.members[who].roundTrip, Asked: h.Asked, Got: h.Granted, Freed: time.Now(),
		})
		q.counts[who]++
		q.mu.Unlock()
	}
}
