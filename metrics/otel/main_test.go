package redimutexotel_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/redimutex/redimutex"
	redimutexotel "github.com/redimutex/redimutex/metrics/otel"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // the tests lose leases on purpose, and the library logs that
	os.Exit(m.Run())
}

// A desk collects what a program reports to OpenTelemetry.
type desk struct {
	reader  *sdkmetric.ManualReader
	spans   *tracetest.InMemoryExporter
	tracers *sdktrace.TracerProvider
	meters  *sdkmetric.MeterProvider
}

func newDesk(t testing.TB, opts ...sdktrace.TracerProviderOption) *desk {
	d := &desk{reader: sdkmetric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	d.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(d.reader))
	d.tracers = sdktrace.NewTracerProvider(append(opts, sdktrace.WithSyncer(d.spans))...)
	t.Cleanup(func() {
		require.NoError(t, d.meters.Shutdown(context.Background()))
		require.NoError(t, d.tracers.Shutdown(context.Background()))
	})
	return d
}

// watch reports the locks of client to the desk, until the end of the test.
func (d *desk) watch(t testing.TB, client *redimutex.Client, opts ...redimutexotel.Option) *redimutexotel.Locks {
	t.Helper()
	opts = append(opts, redimutexotel.WithMeterProvider(d.meters), redimutexotel.WithTracerProvider(d.tracers))
	l, err := redimutexotel.New(client, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// numbers are the data points of one collection, by the name of the metric and its attributes.
type numbers map[string]float64

// collect returns the values of counters and gauges, and the number and sum of observations.
func (d *desk) collect(t testing.TB) (values, counts, sums numbers) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, d.reader.Collect(t.Context(), &all))
	values, counts, sums = numbers{}, numbers{}, numbers{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[m.Name+labels(p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					values[m.Name+labels(p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					counts[m.Name+labels(p.Attributes)] = float64(p.Count)
					sums[m.Name+labels(p.Attributes)] = p.Sum
				}
			default:
				t.Fatalf("%s has data of the kind %T", m.Name, data)
			}
		}
	}
	return values, counts, sums
}

// labels writes each attribute as " name=value", without the prefix of the names of redimutex.
func labels(set attribute.Set) (s string) {
	for _, kv := range set.ToSlice() {
		s += " " + short(kv.Key) + "=" + kv.Value.String()
	}
	return s
}

func short(k attribute.Key) string {
	const prefix = "redimutex."
	if len(k) > len(prefix) && k[:len(prefix)] == prefix {
		return string(k[len(prefix):])
	}
	return string(k)
}

// named returns the spans of that name, in the order of their end.
func (d *desk) named(name string) (all tracetest.SpanStubs) {
	for _, s := range d.spans.GetSpans() {
		if s.Name == name {
			all = append(all, s)
		}
	}
	return all
}

// tags returns the attributes of a span.
func tags(s tracetest.SpanStub) map[string]string {
	all := make(map[string]string)
	for _, kv := range s.Attributes {
		all[short(kv.Key)] = kv.Value.String()
	}
	return all
}
