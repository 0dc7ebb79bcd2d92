package redimutex_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// BenchmarkOwnKeyAllocations counts what one Lock and Unlock allocate over a pool that is not punctual. The module bench
// measures how long they take.
func BenchmarkOwnKeyAllocations(b *testing.B) {
	m := newMutex(b, redistest.Start(b).Pool(), "k")
	m.Lock()
	m.Unlock() //nolint:staticcheck // now there is a connection, and the server knows the script
	b.ReportAllocs()
	for b.Loop() {
		m.Lock()
		m.Unlock() //nolint:staticcheck // the pair is measured
	}
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the second collection frees what a sync.Pool holds
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkIdle reports the memory of an unlocked Mutex: one of a shared Client, which should take 160 bytes at most, and one
// with a Client of its own, as New makes it.
func BenchmarkIdle(b *testing.B) {
	const n = 10_000
	pool := redistest.Start(b).Pool()
	c := newClient(b, pool)
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

// BenchmarkTrace measures a pair of Lock and Unlock that needs no server, because the process has kept the lease. This is the
// fastest path, so the cost of a Trace shows here first. "none" has no Trace, "unset" has one without functions, and the other
// three report each lock and each unlock.
func BenchmarkTrace(b *testing.B) {
	nop := func(redimutex.Event) {}
	told := &redimutex.Trace{Acquired: nop, Released: nop, GaveUp: nop, Lost: nop, Renewed: nop, Waiting: nop, Attempt: nop}
	pairs := func(b *testing.B, observers int, opts ...redimutex.Option) {
		opts = append(opts, redimutex.WithTTL(2*time.Hour), redimutex.WithLeaseReuse(time.Hour/2))
		client := newClient(b, redistest.Start(b).Pool(), opts...)
		for range observers {
			defer client.Observe(told)()
		}
		m := client.Mutex("k")
		m.Lock()
		m.Unlock() //nolint:staticcheck // now the lease is parked
		b.ReportAllocs()
		for b.Loop() {
			m.Lock()
			m.Unlock() //nolint:staticcheck // the pair is measured
		}
	}
	b.Run("none", func(b *testing.B) { pairs(b, 0) })
	b.Run("unset", func(b *testing.B) { pairs(b, 0, redimutex.WithTrace(&redimutex.Trace{})) })
	b.Run("set", func(b *testing.B) { pairs(b, 0, redimutex.WithTrace(told)) })
	b.Run("observed", func(b *testing.B) { pairs(b, 1) })
	b.Run("observed-twice", func(b *testing.B) { pairs(b, 2) })
}
