package redimutex_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// BenchmarkOwnKeyAllocations counts what one pair allocates over a pool that is not punctual. How long pairs take is measured
// by the module bench.
func BenchmarkOwnKeyAllocations(b *testing.B) {
	m := newMutex(b, redistest.Start(b).Pool(), "k")
	m.Lock()
	m.Unlock() //nolint:staticcheck // so that the connection is there and the script known
	b.ReportAllocs()
	for b.Loop() {
		m.Lock()
		m.Unlock() //nolint:staticcheck // the pair is what is measured
	}
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
