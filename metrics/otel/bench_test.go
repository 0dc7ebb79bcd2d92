package redimutexotel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	redimutexotel "github.com/redimutex/redimutex/metrics/otel"
)

// BenchmarkLocks is a pair of Lock and Unlock that needs no server, because the process has kept the
// lease: with metrics alone, with spans that are not sampled, and with all of them.
func BenchmarkLocks(b *testing.B) {
	for name, provider := range map[string]trace.TracerProvider{
		"metrics":   noop.NewTracerProvider(),
		"unsampled": sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())),
		"sampled":   sdktrace.NewTracerProvider(),
	} {
		b.Run(name, func(b *testing.B) {
			client := newClient(b, []redimutex.Pool{redistest.Start(b).Pool()},
				redimutex.WithTTL(2*time.Hour), redimutex.WithLeaseReuse(time.Hour/2))
			locks, err := redimutexotel.New(client, redimutexotel.WithMeterProvider(newDesk(b).meters), redimutexotel.WithTracerProvider(provider))
			require.NoError(b, err)
			defer locks.Close()
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
