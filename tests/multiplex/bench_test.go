package multiplex_test

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

const (
	busy  = 64                     // goroutines, each with a key of its own
	slice = 250 * time.Millisecond // how long one side runs before it is the other's turn
)

// rate returns how many pairs a second busy goroutines get done within a slice.
func rate(pair func(goroutine int)) float64 {
	var pairs atomic.Int64
	var over atomic.Bool
	var group sync.WaitGroup
	began := time.Now()
	timer := time.AfterFunc(slice, func() { over.Store(true) })
	defer timer.Stop()
	for g := range busy {
		group.Go(func() {
			n := int64(0)
			for ; !over.Load(); n++ {
				pair(g)
			}
			pairs.Add(n)
		})
	}
	group.Wait()
	return float64(pairs.Load()) / time.Since(began).Seconds()
}

// barePair is what a program does that has a pool and no library: SET NX PX, and a compare-and-delete.
func barePair(tb testing.TB, pool *redis.Pool) func(int) {
	deletion := redis.NewScript(1, `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
	return func(g int) {
		key, token := "bare:"+strconv.Itoa(g), uuid.NewString()
		c := pool.Get()
		ok, err := redis.String(c.Do("SET", key, token, "NX", "PX", 10_000))
		c.Close()
		if err != nil || ok != "OK" {
			tb.Error(ok, err)
		}
		c = pool.Get()
		n, err := redis.Int(deletion.Do(c, key, token))
		c.Close()
		if err != nil || n != 1 {
			tb.Error(n, err)
		}
	}
}

// BenchmarkMultiplexAgainstBareRedigo has 64 goroutines lock and unlock keys of their own, in turn
// over a multiplexed pool and by bare commands over a pool with a connection for each of them. The
// goal is 2.5 times as many pairs.
func BenchmarkMultiplexAgainstBareRedigo(b *testing.B) {
	s := redistest.Real(b)
	pool := s.Pool()
	bare := barePair(b, pool)
	client := newClient(b, []redimutex.Pool{pool}, redimutex.WithMultiplexing(1))
	mutexes := make([]*redimutex.Mutex, busy)
	for g := range mutexes {
		mutexes[g] = client.Mutex("ours:" + strconv.Itoa(g))
	}
	ours := func(g int) {
		mutexes[g].Lock()
		mutexes[g].Unlock()
	}
	rate(bare) // connect
	rate(ours)
	var ofBare, ofOurs, ratios []float64
	for b.Loop() {
		ofBare = append(ofBare, rate(bare))
		ofOurs = append(ofOurs, rate(ours))
		ratios = append(ratios, ofOurs[len(ofOurs)-1]/ofBare[len(ofBare)-1])
	}
	b.ReportMetric(median(ofBare), "pairs/s-bare")
	b.ReportMetric(median(ofOurs), "pairs/s-ours")
	b.ReportMetric(median(ratios), "ratio")
}

func median(all []float64) float64 {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

// BenchmarkMultiplexedPair is one Lock and Unlock, over the pool and over a multiplexed one, with
// one goroutine and with 64.
func BenchmarkMultiplexedPair(b *testing.B) {
	s := redistest.Real(b)
	for _, goroutines := range []int{1, busy} {
		for _, over := range []string{"pool", "multiplexed"} {
			b.Run(over+"/"+strconv.Itoa(goroutines), func(b *testing.B) {
				var opts []redimutex.Option
				if over == "multiplexed" {
					opts = append(opts, redimutex.WithMultiplexing(1))
				}
				client := newClient(b, []redimutex.Pool{s.Pool()}, opts...)
				b.ReportAllocs()
				var group sync.WaitGroup
				var left atomic.Int64
				left.Store(int64(b.N))
				for g := range goroutines {
					m := client.Mutex(strconv.Itoa(g))
					group.Go(func() {
						for left.Add(-1) >= 0 {
							m.Lock()
							m.Unlock()
						}
					})
				}
				group.Wait()
			})
		}
	}
}
