package queue_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// BenchmarkQueue has Clients, as of so many processes, contend for one key. An operation is one hold.
// Requests are scripts that clients sent. The goals: at most 3 requests a hold, and 4 with 64 clients;
// with a hold of 5 ms a p99 wait of at most 1.15 times 32 holds, and fewest/most of at least 0.9.
func BenchmarkQueue(b *testing.B) {
	for _, c := range []struct {
		clients, goroutines int
		hold                time.Duration
		opts                []redimutex.Option
	}{
		{clients: 1, goroutines: 1},
		{clients: 2, goroutines: 1},
		{clients: 4, goroutines: 8},
		{clients: 4, goroutines: 8, opts: []redimutex.Option{redimutex.WithFencing()}},
		{clients: 4, goroutines: 8, hold: 5 * time.Millisecond},
		{clients: 16, goroutines: 1},
		{clients: 64, goroutines: 1},
		{clients: 64, goroutines: 1, hold: 5 * time.Millisecond},
	} {
		name := fmt.Sprintf("%dx%d/hold=%v", c.clients, c.goroutines, c.hold)
		if len(c.opts) > 0 {
			name += "/fencing"
		}
		b.Run(name, func(b *testing.B) {
			s := redistest.Real(b)
			var mutexes []*redimutex.Mutex
			for range c.clients {
				mutexes = append(mutexes, newMutex(b, s.Pool(), c.opts...))
			}
			contend(b, s, mutexes, c.goroutines, c.hold)
		})
	}
}

// contend has goroutines on each Mutex lock it b.N times in all, and reports how that went.
func contend(b *testing.B, s *redistest.Server, mutexes []*redimutex.Mutex, goroutines int, hold time.Duration) {
	var left, lost atomic.Int64
	left.Store(int64(b.N))
	waits := make([][]time.Duration, len(mutexes)*goroutines)
	var group sync.WaitGroup
	before := calls(b, s, "evalsha")
	b.ResetTimer()
	for i := range waits {
		m := mutexes[i%len(mutexes)]
		group.Go(func() {
			for left.Add(-1) >= 0 {
				began := time.Now()
				m.Lock()
				waits[i] = append(waits[i], time.Since(began))
				if hold > 0 {
					<-time.After(hold)
				}
				if m.UnlockContext(context.Background()) != nil {
					lost.Add(1)
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	fewest, most := len(waits[0]), len(waits[0])
	for _, w := range waits {
		fewest, most = min(fewest, len(w)), max(most, len(w))
	}
	all := slices.Concat(waits...)
	b.ReportMetric(float64(calls(b, s, "evalsha")-before)/float64(b.N), "requests/op")
	b.ReportMetric(float64(locktest.Quantile(all, .5).Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(locktest.Quantile(all, .99).Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(fewest)/float64(most), "fewest/most")
	b.ReportMetric(float64(lost.Load()), "lost")
}
