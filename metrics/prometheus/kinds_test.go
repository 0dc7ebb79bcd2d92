package redimutexprom_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	redimutexprom "github.com/redimutex/redimutex/metrics/prometheus"
)

func TestEachHoldOfEveryKindCounts(t *testing.T) {
	t.Parallel()
	client := locktest.Client(t, redistest.Start(t).Pool(), redimutex.WithTTL(time.Minute))
	registry := prometheus.NewPedanticRegistry()
	collect(t, registry, client, redimutexprom.WithKeyLabel(func(key string) string { return key }))
	var held []*redimutex.Lease
	for _, acquire := range []func() (*redimutex.Lease, error){
		func() (*redimutex.Lease, error) { return client.Semaphore("permits", 2).Acquire(t.Context()) },
		func() (*redimutex.Lease, error) { return client.Semaphore("permits", 2).Acquire(t.Context()) },
		func() (*redimutex.Lease, error) { return client.RWMutex("book").RAcquire(t.Context()) },
		func() (*redimutex.Lease, error) { return client.MutexAll([]string{"a", "b"}).Acquire(t.Context()) },
	} {
		l, err := acquire()
		require.NoError(t, err)
		held = append(held, l)
	}
	p := scrape(t, registry)
	assert.EqualValues(t, 4, p.value("redimutex_locks_held"))
	assert.EqualValues(t, 4, p.value("redimutex_acquired_total"))
	for _, key := range []string{"permits", "book", "a"} {
		assert.Positive(t, p.value("redimutex_oldest_hold_seconds", "key", key), key)
	}
	for _, l := range held {
		require.NoError(t, l.Release(t.Context()))
	}
	p = scrape(t, registry)
	assert.Zero(t, p.value("redimutex_locks_held"))
	assert.EqualValues(t, 4, p.value("redimutex_released_total"))
}
