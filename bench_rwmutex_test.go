package redimutex_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// BenchmarkReadersWithLeaseReuse is RLock and RUnlock of readers that share a lease: no pair of them asks the server,
// but for one each time that the lease is renewed.
func BenchmarkReadersWithLeaseReuse(b *testing.B) {
	s := redistest.Real(b)
	client := newClient(b, []redimutex.Pool{s.Pool()}, redimutex.WithLeaseReuse(4*time.Second))
	m := client.RWMutex("k")
	for _, readers := range []string{"one", "many"} {
		b.Run(readers, func(b *testing.B) {
			b.ReportAllocs()
			if readers == "one" {
				for b.Loop() {
					m.RLock()
					m.RUnlock()
				}
				return
			}
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					m.RLock()
					m.RUnlock()
				}
			})
		})
	}
	require.NoError(b, m.LockContext(b.Context(), 0))
	m.Unlock()
}
