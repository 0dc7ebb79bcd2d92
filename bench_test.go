package redimutex_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// bare is the same lock written by hand: a connection for each command, as anything needs that does
// not keep one while the lock is held, and no more than the two commands.
type bare struct {
	pool *redis.Pool
	hash string
}

func newBare(b *testing.B, pool *redis.Pool) bare {
	const script = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
	hash, err := redis.String(bare{pool: pool}.do("SCRIPT", "LOAD", script))
	require.NoError(b, err)
	return bare{pool, hash}
}

func (x bare) do(command string, args ...any) (any, error) {
	c := x.pool.Get()
	defer c.Close()
	return c.Do(command, args...)
}

func (x bare) pair(key string) {
	token := uuid.NewString()
	if ok, err := redis.String(x.do("SET", key, token, "NX", "PX", 10_000)); ok != "OK" {
		panic(fmt.Sprint("SET: ", ok, err))
	}
	if n, err := redis.Int(x.do("EVALSHA", x.hash, 1, key, token)); n != 1 {
		panic(fmt.Sprint("EVALSHA: ", n, err))
	}
}

// race has ours and the bare loop do the same work in turn, so that both see the same machine,
// and report medians: of ours, and how fast ours is as a share of the bare loop. pairs is how many
// pairs of Lock and Unlock one run is.
func race(b *testing.B, pairs int, ours, other func()) {
	ours()
	other()
	var mine, theirs []time.Duration
	timed := func(f func(), into *[]time.Duration) {
		began := time.Now()
		f()
		*into = append(*into, time.Since(began)/time.Duration(pairs))
	}
	for even := true; b.Loop(); even = !even {
		if even {
			timed(ours, &mine)
			timed(other, &theirs)
		} else {
			timed(other, &theirs)
			timed(ours, &mine)
		}
	}
	a, c := locktest.Quantile(mine, 0.5), locktest.Quantile(theirs, 0.5)
	b.ReportMetric(float64(a), "ns/pair")
	b.ReportMetric(float64(c), "bare-ns/pair")
	b.ReportMetric(float64(c)/float64(a), "ratio")
	b.ReportMetric(0, "ns/op") // would be that of both together
}

// BenchmarkOwnKey is one goroutine that locks and unlocks a key that no other caller wants. An
// operation is 200 pairs of ours and 200 of the bare loop. The goal is a ratio of at least 0.95.
func BenchmarkOwnKey(b *testing.B) {
	pool := redistest.Start(b).Pool()
	m, hand := newMutex(b, pool, "ours"), newBare(b, pool)
	const pairs = 200
	race(b, pairs, func() {
		for range pairs {
			m.Lock()
			m.Unlock() //nolint:staticcheck // the pair is what is measured
		}
	}, func() {
		for range pairs {
			hand.pair("bare")
		}
	})
}

// BenchmarkOwnKeyAllocations counts what one pair allocates; the goal is at most 12 times.
func BenchmarkOwnKeyAllocations(b *testing.B) {
	pool := redistest.Start(b).Pool()
	b.Run("ours", func(b *testing.B) {
		m := newMutex(b, pool, "ours")
		m.Lock()
		m.Unlock() //nolint:staticcheck // so that the connection is there and the script known
		b.ReportAllocs()
		for b.Loop() {
			m.Lock()
			m.Unlock() //nolint:staticcheck // the pair is what is measured
		}
	})
	b.Run("bare", func(b *testing.B) {
		hand := newBare(b, pool)
		b.ReportAllocs()
		for b.Loop() {
			hand.pair("bare")
		}
	})
}

// BenchmarkOwnKeys64 is 64 goroutines with a key each, 20 pairs of ours each, then of the bare loop.
func BenchmarkOwnKeys64(b *testing.B) {
	pool := redistest.Start(b).Pool()
	c, hand := newClient(b, []redimutex.Pool{pool}), newBare(b, pool)
	const goroutines, pairs = 64, 20
	crowd := func(pair func(i int)) {
		var all sync.WaitGroup
		for i := range goroutines {
			all.Go(func() {
				for range pairs {
					pair(i)
				}
			})
		}
		all.Wait()
	}
	var mutexes [goroutines]*redimutex.Mutex
	for i := range mutexes {
		mutexes[i] = c.Mutex(fmt.Sprint("ours", i))
	}
	race(b, goroutines*pairs,
		func() { crowd(func(i int) { mutexes[i].Lock(); mutexes[i].Unlock() }) }, //nolint:staticcheck // as above
		func() { crowd(func(i int) { hand.pair(fmt.Sprint("bare", i)) }) })
}

// BenchmarkContendedLocally is 16 goroutines of one process that want the same key.
func BenchmarkContendedLocally(b *testing.B) {
	m := newMutex(b, redistest.Start(b).Pool(), "k")
	b.ReportAllocs()
	b.SetParallelism(max(16/runtime.GOMAXPROCS(0), 1))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Lock()
			m.Unlock() //nolint:staticcheck // the pair is what is measured
		}
	})
}

// BenchmarkTenThousandWaiters reports what it costs that 10,000 goroutines wait for a key that another
// process holds: requests a second on the server (the goal is 20), memory in which the callers'
// goroutines are not counted, and goroutines of ours.
func BenchmarkTenThousandWaiters(b *testing.B) {
	const waiters = 10_000
	server := redistest.Start(b)
	if !server.IsReal() {
		b.Skip("needs INFO commandstats: miniredis doesn't have it")
	}
	c := newClient(b, []redimutex.Pool{server.Pool()})
	m := c.Mutex("k")
	server.Do("SET", "k", "held by another process")
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		var all sync.WaitGroup
		begin := make(chan struct{})
		var parked atomic.Int64
		for range waiters {
			all.Go(func() {
				parked.Add(1)
				<-begin
				_ = m.LockContext(ctx, 0)
			})
		}
		redistest.Wait(b, "the goroutines are there", func() bool { return parked.Load() == waiters })
		own, before := goroutines(), heap()
		close(begin)
		redistest.Wait(b, "all are waiting", func() bool { return c.Stats().Waiting == waiters })
		memory, spent := heap()-before, goroutines()-own

		began, calls := time.Now(), requests(b, server)
		<-time.After(2 * time.Second)
		rate := float64(requests(b, server)-calls) / time.Since(began).Seconds()
		cancel()
		all.Wait()
		b.ReportMetric(rate, "requests/s")
		b.ReportMetric(float64(memory)/waiters, "B/waiter")
		b.ReportMetric(float64(spent), "goroutines")
	}
}

// requests returns how many scripts clients have sent, which is what a waiter sends.
func requests(b *testing.B, s *redistest.Server) (n int) {
	info, err := redis.String(s.Do("INFO", "commandstats"), nil)
	require.NoError(b, err)
	for line := range strings.Lines(info) {
		name, figures, _ := strings.Cut(line, ":calls=")
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "eval", "evalsha":
			var calls int
			_, err := fmt.Sscanf(figures, "%d", &calls)
			require.NoError(b, err)
			n += calls
		}
	}
	return n
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what a sync.Pool holds goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkIdle reports the memory of a Mutex that is not locked: one of a shared Client, for which
// the goal is 160 bytes at most, and one that New has given a Client of its own.
func BenchmarkIdle(b *testing.B) {
	const n = 10_000
	pool := redistest.Start(b).Pool()
	c := newClient(b, []redimutex.Pool{pool})
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	for name, mutex := range map[string]func(key string) *redimutex.Mutex{
		"Client.Mutex": func(key string) *redimutex.Mutex { return c.Mutex(key) },
		"New":          func(key string) *redimutex.Mutex { return redimutex.New(pool, key) },
	} {
		b.Run(name, func(b *testing.B) {
			mutexes := make([]*redimutex.Mutex, n)
			for b.Loop() {
				clear(mutexes)
				before := heap()
				for i, key := range keys {
					mutexes[i] = mutex(key)
				}
				b.ReportMetric(float64(heap()-before)/n, "B/mutex")
			}
			runtime.KeepAlive(mutexes)
		})
	}
}

// BenchmarkTrace is a pair of Lock and Unlock that needs no server, because the process has kept the lease:
// so it is the fastest path, where whatever a Trace costs would show first. "none" is what everybody pays
// for the possibility; "unset" is a Trace without functions; the others tell each lock and each unlock.
func BenchmarkTrace(b *testing.B) {
	nop := func(redimutex.Event) {}
	told := &redimutex.Trace{Acquired: nop, Released: nop, GaveUp: nop, Lost: nop, Renewed: nop, Waiting: nop, Attempt: nop}
	pairs := func(b *testing.B, observers int, opts ...redimutex.Option) {
		opts = append(opts, redimutex.WithTTL(2*time.Hour), redimutex.WithLeaseReuse(time.Hour/2))
		client := newClient(b, []redimutex.Pool{redistest.Start(b).Pool()}, opts...)
		for range observers {
			defer client.Observe(told)()
		}
		m := client.Mutex("k")
		m.Lock()
		m.Unlock() //nolint:staticcheck // so that the lease is there
		b.ReportAllocs()
		for b.Loop() {
			m.Lock()
			m.Unlock() //nolint:staticcheck // the pair is what is measured
		}
	}
	b.Run("none", func(b *testing.B) { pairs(b, 0) })
	b.Run("unset", func(b *testing.B) { pairs(b, 0, redimutex.WithTrace(&redimutex.Trace{})) })
	b.Run("set", func(b *testing.B) { pairs(b, 0, redimutex.WithTrace(told)) })
	b.Run("observed", func(b *testing.B) { pairs(b, 1) })
	b.Run("observed-twice", func(b *testing.B) { pairs(b, 2) })
}
