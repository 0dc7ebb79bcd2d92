package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// timings are how long Lock and Unlock took.
type timings struct{ lock, unlock []time.Duration }

// measure times one pair.
func (s *timings) measure(m *redimutex.Mutex) {
	began := time.Now()
	m.Lock()
	locked := time.Now()
	m.Unlock()
	s.lock = append(s.lock, locked.Sub(began))
	s.unlock = append(s.unlock, time.Since(locked))
}

func reportMicros(b *testing.B, all []time.Duration, q float64, unit string) {
	b.ReportMetric(float64(locktest.Quantile(all, q))/float64(time.Microsecond), unit)
}

// BenchmarkRedlockAgainstOneServer compares five servers with one, pair by pair in turn, so that
// both see the same machine. The goal is a ratio of the medians of at most 1.6. On loopback all five
// share the cores with each other and with us, and the ratio is that of the work; the way to a server
// of one's own is what a network of 1 ms shows.
func BenchmarkRedlockAgainstOneServer(b *testing.B) {
	for _, way := range []struct {
		name  string
		takes time.Duration
	}{{"loopback", 0}, {"1 ms away", time.Millisecond}} {
		b.Run(way.name, func(b *testing.B) {
			plain, pools := locktest.Real(b, 5).Pools()
			if way.takes > 0 {
				for i := range pools {
					between := redistest.NewBetween(plain[i])
					between.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
						time.Sleep(way.takes)
						return run()
					})
					pools[i] = between
				}
			}
			five := newClient(b, pools).Mutex("five")
			one := newMutex(b, pools[0], "one")
			var ofFive, ofOne timings
			for range 100 { // dial
				ofFive.measure(five)
				ofOne.measure(one)
			}
			ofFive, ofOne = timings{}, timings{}
			for b.Loop() {
				ofFive.measure(five)
				ofOne.measure(one)
			}
			reportMicros(b, ofOne.lock, .5, "µs-one")
			reportMicros(b, ofFive.lock, .5, "µs-five")
			b.ReportMetric(float64(locktest.Quantile(ofFive.lock, .5))/float64(locktest.Quantile(ofOne.lock, .5)), "ratio")
		})
	}
}

// BenchmarkRedlockWhileServersHang has none, one and two of five servers stopped. The goals are a p99
// of at most 5 ms for Lock and for Unlock, and no goroutines that become more.
func BenchmarkRedlockWhileServersHang(b *testing.B) {
	for hung, name := range []string{"0 of 5", "1 of 5", "2 of 5"} {
		b.Run(name, func(b *testing.B) {
			c := locktest.Real(b, 5)
			_, pools := c.Pools()
			m := newClient(b, pools).Mutex("k")
			var all timings
			for range 100 { // dial
				all.measure(m)
			}
			for _, s := range c[:hung] {
				s.Pause()
				defer s.Resume()
			}
			all = timings{}
			before, most := 0, 0
			for b.Loop() {
				all.measure(m)
				if len(all.lock)%64 == 0 {
					b.StopTimer()
					n := locktest.Goroutines()
					if before == 0 {
						before = n
					}
					most = max(most, n)
					b.StartTimer()
				}
			}
			reportMicros(b, all.lock, .5, "µs-lock")
			reportMicros(b, all.lock, .99, "µs-lock-p99")
			reportMicros(b, all.unlock, .99, "µs-unlock-p99")
			b.ReportMetric(float64(most-before), "goroutines-more")
		})
	}
}

// BenchmarkRedlockWithoutQuorum has three of five servers stopped. The goal is to be back at most
// 50 ms after the limit, with a NodeError for each of the three.
func BenchmarkRedlockWithoutQuorum(b *testing.B) {
	c := locktest.Real(b, 5)
	_, pools := c.Pools()
	m := newClient(b, pools).Mutex("k")
	for range 10 {
		m.Lock()
		m.Unlock()
	}
	for _, s := range c[:3] {
		s.Pause()
		defer s.Resume()
	}
	const limit = 100 * time.Millisecond
	var late []time.Duration
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), limit)
		began := time.Now()
		err := m.LockContext(ctx, 0)
		late = append(late, time.Since(began)-limit)
		cancel()
		if !errors.Is(err, redimutex.ErrUnavailable) || len(nodes(err)) < 3 {
			b.Fatal(err)
		}
	}
	reportMicros(b, late, .5, "µs-late")
	reportMicros(b, late, .99, "µs-late-p99")
}
