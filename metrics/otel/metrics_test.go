package redimutexotel_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	redimutexotel "github.com/redimutex/redimutex/metrics/otel"
)

func TestMetricsAgreeWithStats(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool(), redimutex.WithTTL(time.Minute), redimutex.WithPollInterval(time.Millisecond))
	d := newDesk(t)
	d.watch(t, client, redimutexotel.WithServerNames("main"))

	contended := client.Mutex("contended")
	s.Do("SET", "contended", "foreign", "PX", 60_000)
	require.ErrorIs(t, contended.TryLockContext(t.Context()), redimutex.ErrLocked)
	got := make(chan error)
	go func() { got <- contended.LockContext(t.Context(), 0) }()
	redistest.Wait(t, "a waiter", func() bool { v, _, _ := d.collect(t); return v["redimutex.lock.waiters"] == 1 })
	s.Do("DEL", "contended")
	require.NoError(t, <-got)
	require.NoError(t, contended.Lease().Extend(t.Context(), time.Minute))
	deleted, taken := client.Mutex("deleted"), client.Mutex("taken")
	deleted.Lock()
	taken.Lock()
	s.Do("DEL", "deleted")
	s.Do("SET", "taken", "another")
	require.ErrorIs(t, deleted.UnlockContext(t.Context()), redimutex.ErrLost)
	require.ErrorIs(t, taken.UnlockContext(t.Context()), redimutex.ErrLost)

	stats := client.Stats()
	values, counts, sums := d.collect(t)
	assert.Greater(t, values["redimutex.lock.oldest_hold"], 0.0)
	delete(values, "redimutex.lock.oldest_hold")
	assert.Equal(t, numbers{
		"redimutex.lock.held": 1, "redimutex.lock.waiters": 0,
		"redimutex.lock.acquired": 3, "redimutex.lock.contended": 1, "redimutex.lock.released": 2,
		"redimutex.lock.failed outcome=locked": 1, "redimutex.lock.failed outcome=unavailable": 0, "redimutex.lock.failed outcome=refused": 0,
		"redimutex.lock.failed outcome=cancelled": 0, "redimutex.lock.failed outcome=closed": 0, "redimutex.lock.failed outcome=failed": 0,
		"redimutex.lease.renewals outcome=renewed": float64(stats.Renewed), "redimutex.lease.renewals outcome=failed": 0,
		"redimutex.lease.lost reason=expired": 0, "redimutex.lease.lost reason=deleted": 1, "redimutex.lease.lost reason=taken": 1,
		"redimutex.server.errors server=main": 0,
	}, values)
	assert.Equal(t, numbers{
		"redimutex.lock.wait outcome=acquired": 3, "redimutex.lock.wait outcome=locked": 1, "redimutex.lock.hold outcome=lost": 2,
	}, counts)
	assert.InDelta(t, stats.WaitTime.Seconds(), sums["redimutex.lock.wait outcome=acquired"], 1e-6)
	assert.EqualValues(t, 1, stats.Renewed)

	contended.Unlock()
	values, counts, _ = d.collect(t)
	assert.EqualValues(t, 1, counts["redimutex.lock.hold outcome=released"])
	assert.Zero(t, values["redimutex.lock.oldest_hold"])
}

func TestAThousandKeysMakeNoMoreMetrics(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool(), redimutex.WithNodeTimeout(4*time.Second))
	d := newDesk(t)
	d.watch(t, client)
	use := func(from, to int) (series int) {
		for i := from; i < to; i++ {
			m := client.Mutex(fmt.Sprintf("invoice:%d", i))
			m.Lock()
			m.Unlock()
		}
		values, counts, _ := d.collect(t)
		return len(values) + len(counts)
	}
	assert.Equal(t, use(0, 1), use(1, 1000))
}

func TestKeysAreAnAttributeOfMetricsAsFarAsTheUserWants(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool())
	d := newDesk(t)
	d.watch(t, client, redimutexotel.WithKeyAttribute(func(key string) string {
		kind, _, _ := strings.Cut(key, ":")
		return kind
	}), redimutexotel.WithAttributes(attribute.String("client", "orders")))
	for i := range 10 {
		m := client.Mutex(fmt.Sprintf("invoice:%d", i))
		m.Lock()
		m.Unlock()
	}
	values, counts, _ := d.collect(t)
	assert.Equal(t, numbers{
		"redimutex.lock.wait client=orders key=invoice outcome=acquired": 10,
		"redimutex.lock.hold client=orders key=invoice outcome=released": 10,
	}, counts)
	assert.EqualValues(t, 10, values["redimutex.lock.acquired client=orders"])
}

func TestCloseStopsTelling(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool())
	d := newDesk(t)
	l := d.watch(t, client)
	m := client.Mutex("k")
	m.Lock()
	require.NoError(t, l.Close())
	require.NoError(t, l.Close(), "once more does no harm")
	assert.Len(t, d.named("redimutex.hold"), 1, "the span of a hold that lasts is ended")
	m.Unlock()
	m.Lock()
	m.Unlock()
	values, counts, _ := d.collect(t)
	assert.NotContains(t, values, "redimutex.lock.acquired")
	assert.Zero(t, counts["redimutex.lock.hold outcome=released"])
	assert.Len(t, d.spans.GetSpans(), 2)
}

func TestNonsenseIsAnError(t *testing.T) {
	t.Parallel()
	client := locktest.Client(t, redistest.Start(t).Pool())
	for want, opt := range map[string]redimutexotel.Option{
		"an Option is nil":            nil,
		"got 2 names, and the Client": redimutexotel.WithServerNames("a", "b"),
		"turns metrics off":           redimutexotel.WithMeterProvider(nil),
		"turns spans off":             redimutexotel.WithTracerProvider(nil),
	} {
		_, err := redimutexotel.New(client, opt)
		assert.ErrorContains(t, err, want)
	}
	_, err := redimutexotel.New(nil)
	assert.ErrorContains(t, err, "needs a Client")
}
