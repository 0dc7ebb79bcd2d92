package redimutex_test

import (
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

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
