package redimutexprom_test

import (
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	redimutexprom "github.com/redimutex/redimutex/metrics/prometheus"
)

// BenchmarkCollector is a pair of Lock and Unlock that needs no server, because the process has kept the
// lease, without a Collector and with one: what the two histograms cost.
func BenchmarkCollector(b *testing.B) {
	for name, opts := range map[string][]redimutexprom.Option{
		"none":   nil,
		"plain":  {},
		"native": {redimutexprom.WithNativeHistograms()},
		"key":    {redimutexprom.WithKeyLabel(func(key string) string { return key })},
	} {
		b.Run(name, func(b *testing.B) {
			client := newClient(b, []redimutex.Pool{redistest.Start(b).Pool()},
				redimutex.WithTTL(2*time.Hour), redimutex.WithLeaseReuse(time.Hour/2))
			if opts != nil {
				defer redimutexprom.New(client, opts...).Close()
			}
			m := client.Mutex("k")
			m.Lock()
			m.Unlock() //nolint:staticcheck // so that the lease is there
			b.ReportAllocs()
			for b.Loop() {
				m.Lock()
				m.Unlock() //nolint:staticcheck // the pair is what is measured
			}
		})
	}
}
