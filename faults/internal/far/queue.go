package far

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/lab/turns"
	"github.com/redimutex/redimutex/internal/redistest"
)

// nodeTimeout is longer than the farthest round trip takes on a machine that is late.
const nodeTimeout = 2 * time.Second

// A member is a client who takes the lock again and again, and works under it.
type member struct {
	roundTrip time.Duration
	mutex     *redimutex.Mutex
}

// A queue is members who want one lock.
type queue struct {
	members []member
	work    time.Duration

	mu      sync.Mutex
	turns   []turns.Turn // in the order of their ends
	counts  []int
	current *redimutex.Lease // of the process that has the lock, and has not begun to unlock
	holds   int
	clashes int // of these that began while another lease was valid
	err     error
}

// newQueue returns members with these round trips to the server.
func newQueue(t testing.TB, s *redistest.Server, key string, work time.Duration, roundTrips ...time.Duration) *queue {
	q := &queue{work: work, counts: make([]int, len(roundTrips))}
	for _, rt := range roundTrips {
		var pool *redis.Pool
		if rt == 0 {
			pool = s.Pool()
		} else {
			pool = s.Network(rt / 2).Pool()
		}
		client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithQueue(),
			redimutex.WithNodeTimeout(nodeTimeout), redimutex.WithLogger(slog.New(slog.DiscardHandler)))
		t.Cleanup(func() { client.Close() })
		q.members = append(q.members, member{rt, client.Mutex(key)})
	}
	return q
}

// run lets the members in for so long, and for longer until each has had some turns. It returns the turns.
func (q *queue) run(ctx context.Context, t testing.TB, d time.Duration, some int) []turns.Turn {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q.mu.Lock()
	q.turns, q.counts = nil, make([]int, len(q.members))
	q.mu.Unlock()
	var team sync.WaitGroup
	for i := range q.members {
		team.Go(func() { q.compete(ctx, i) })
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	defer team.Wait()
	defer cancel()
	redistest.Wait(t, "each has had its turns", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		least := q.counts[0]
		for _, n := range q.counts {
			least = min(least, n)
		}
		return least >= some || ctx.Err() != nil
	})
	cancel()
	team.Wait()
	if q.err != nil && t.Context().Err() == nil {
		t.Fatal(q.err)
	}
	return q.turns
}

func (q *queue) compete(ctx context.Context, who int) {
	m := q.members[who].mutex
	for ctx.Err() == nil {
		now := turns.Turn{Who: who, RoundTrip: q.members[who].roundTrip, Asked: time.Now()}
		if err := m.LockContext(ctx, 0); err != nil {
			if ctx.Err() == nil {
				q.fail(err)
			}
			return
		}
		now.Got = time.Now()
		lease := m.Lease()
		q.begin(lease)
		time.Sleep(q.work)
		q.leave(lease)
		_ = m.UnlockContext(context.Background()) // what was lost tells so
		now.Freed = time.Now()
		q.end(now)
	}
}

func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
}

func (q *queue) begin(lease *redimutex.Lease) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.holds++
	if q.current != nil && redistest.BothValid(q.current, lease) {
		q.clashes++
	}
	q.current = lease
}

func (q *queue) leave(lease *redimutex.Lease) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.current == lease {
		q.current = nil
	}
}

func (q *queue) end(now turns.Turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turns = append(q.turns, now)
	q.counts[now.Who]++
}
