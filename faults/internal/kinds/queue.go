package kinds

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/faults/internal/load"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A tampering is a command by which a stranger damages the key of a queue.
type tampering struct {
	name    string
	command string
	args    []any // after the key
}

var tamperings = []tampering{
	{"deleted", "DEL", nil},
	{"emptied but for its last waiter", "ZREMRANGEBYRANK", []any{0, -2}},
	{"led by what is no waiter", "ZADD", []any{0, "nonsense"}},
}

// spoilt damages a queue while one process has the lock and others wait for it.
func spoilt(s *evidence.Scene) {
	const waiters = 4
	figures := make([]evidence.Figure, len(tamperings))
	longest := make([]time.Duration, len(tamperings))
	var ledger load.Ledger
	for q := s.Quota(1, 20); q.More(); q.Done++ {
		for i, one := range tamperings {
			s.Round(func(t testing.TB) {
				served, last := spoiltOnce(t, &ledger, one, waiters)
				figures[i].Held += served
				figures[i].Tried += waiters
				longest[i] = max(longest[i], last)
			})
		}
	}
	for i, f := range figures {
		f.Library = fmt.Sprintf("%s, queue %s", evidence.Ours, tamperings[i].name)
		f.Worst = fmt.Sprintf("all served within %v of the release, with a TTL of %v", longest[i].Round(time.Millisecond), ttl)
		s.Figure(f)
	}
	sums := ledger.Sums()
	s.Figure(evidence.Figure{
		Library: evidence.Ours + ", holds", Held: sums.Holds - sums.Clashes, Tried: sums.Holds,
		Worst: fmt.Sprintf("%d overlaps; %s", sums.Clashes, sums.First),
	})
}

// spoiltOnce returns how many of the waiters got the lock, and how long after the release the last of them did.
func spoiltOnce(t testing.TB, ledger *load.Ledger, one tampering, waiters int) (served int, last time.Duration) {
	server := redistest.Real(t)
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	defer cancel()
	process := func() *redimutex.Mutex {
		client := redimutex.NewClient([]redimutex.Pool{server.Pool()},
			redimutex.WithQueue(), redimutex.WithTTL(ttl), redimutex.WithLogger(peers.Quiet))
		t.Cleanup(func() { client.Close() })
		return client.Mutex("k")
	}
	first, err := ledger.Acquire(ctx, process())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var end time.Time
	var all sync.WaitGroup
	for range waiters {
		m := process()
		all.Go(func() {
			h, err := ledger.Acquire(ctx, m)
			if err != nil {
				return // it is missing in served
			}
			mu.Lock()
			served, end = served+1, time.Now()
			mu.Unlock()
			ledger.Release(h)
		})
	}
	queue := ""
	redistest.Wait(t, "all are in the queue", func() bool {
		for _, key := range server.Keys() {
			if strings.Contains(key, "queue") {
				queue = key
			}
		}
		return queue != "" && server.Do("ZCARD", queue) == int64(waiters)
	})
	server.Do(one.command, append([]any{queue}, one.args...)...)
	released := time.Now()
	ledger.Release(first)
	all.Wait()
	return served, end.Sub(released)
}
