package redimutexprom_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	redimutexprom "github.com/redimutex/redimutex/metrics/prometheus"
)

// agree checks a page against the figures of the Client that it shows.
func agree(t *testing.T, p page, s redimutex.Stats) {
	t.Helper()
	for name, want := range map[string]int64{
		"locks_held": int64(s.Held), "waiters": int64(s.Waiting),
		"acquired_total": s.Acquired, "contended_total": s.Contended, "released_total": s.Released,
	} {
		assert.EqualValues(t, want, p.value("redimutex_"+name), name)
	}
	assert.EqualValues(t, s.Renewed, p.value("redimutex_renewals_total", "outcome", "renewed"))
	assert.EqualValues(t, s.NotRenewed, p.value("redimutex_renewals_total", "outcome", "failed"))
	assert.EqualValues(t, s.LostExpired, p.value("redimutex_lost_total", "reason", "expired"))
	assert.EqualValues(t, s.LostDeleted, p.value("redimutex_lost_total", "reason", "deleted"))
	assert.EqualValues(t, s.LostTaken, p.value("redimutex_lost_total", "reason", "taken"))
	for i, n := range s.Errors {
		assert.EqualValues(t, n, p.value("redimutex_server_errors_total", "server", fmt.Sprint(i)))
	}

	acquired := p.find("redimutex_wait_seconds", "outcome", "acquired").GetHistogram()
	assert.EqualValues(t, s.Acquired, acquired.GetSampleCount())
	assert.InDelta(t, s.WaitTime.Seconds(), acquired.GetSampleSum(), 1e-6)
	var waits, holds uint64
	var failed float64
	for _, m := range p["redimutex_failed_total"].GetMetric() {
		failed += m.GetCounter().GetValue()
	}
	assert.EqualValues(t, s.Failed, failed)
	for _, m := range p["redimutex_wait_seconds"].GetMetric() {
		waits += m.GetHistogram().GetSampleCount()
	}
	for _, m := range p["redimutex_hold_seconds"].GetMetric() {
		holds += m.GetHistogram().GetSampleCount()
	}
	assert.EqualValues(t, s.Acquired+s.Failed, waits)
	assert.EqualValues(t, s.Released, holds)
}

func TestAScrapeAgreesWithStatsWhateverHappensToTheLocks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool(), redimutex.WithTTL(time.Minute), redimutex.WithPollInterval(time.Millisecond))
	registry := prometheus.NewPedanticRegistry()
	collect(t, registry, client)
	agree(t, scrape(t, registry), client.Stats())

	var crowd sync.WaitGroup // goroutines that want the same lock
	for range 20 {
		crowd.Go(func() {
			m := client.Mutex("crowd")
			m.Lock()
			defer m.Unlock()
			s.Do("PING")
		})
	}
	crowd.Wait()

	s.Do("SET", "contended", "foreign", "PX", 60_000)
	waiter := client.Mutex("contended")
	assert.ErrorIs(t, waiter.TryLockContext(t.Context()), redimutex.ErrLocked)
	got := make(chan error)
	go func() { got <- waiter.LockContext(t.Context(), 0) }()
	redistest.Wait(t, "a waiter in the scrape", func() bool { return scrape(t, registry).value("redimutex_waiters") == 1 })
	s.Do("DEL", "contended")
	require.NoError(t, <-got)

	deleted, taken := client.Mutex("deleted"), client.Mutex("taken")
	deleted.Lock()
	taken.Lock()
	require.NoError(t, deleted.Lease().Extend(t.Context(), time.Minute))
	p := scrape(t, registry)
	assert.EqualValues(t, 3, p.value("redimutex_locks_held"))
	agree(t, p, client.Stats())
	s.Do("DEL", "deleted")
	s.Do("SET", "taken", "another")
	assert.ErrorIs(t, deleted.UnlockContext(t.Context()), redimutex.ErrLost)
	assert.ErrorIs(t, taken.UnlockContext(t.Context()), redimutex.ErrLost)
	waiter.Unlock()

	short := client.Mutex("short", redimutex.WithTTL(2*time.Second), redimutex.WithNodeTimeout(900*time.Millisecond), redimutex.WithoutRenewal())
	short.Lock()
	<-short.Lease().Done()
	assert.ErrorIs(t, short.UnlockContext(t.Context()), redimutex.ErrLost)

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, waiter.LockContext(cancelled, 0), context.Canceled)

	redistest.Wait(t, "the loss by time in the figures", func() bool { return client.Stats().LostExpired == 1 })
	p = scrape(t, registry)
	agree(t, p, client.Stats())
	assert.EqualValues(t, 24, p.value("redimutex_acquired_total"))
	assert.EqualValues(t, 1, p.value("redimutex_failed_total", "outcome", "locked"))
	assert.EqualValues(t, 1, p.value("redimutex_failed_total", "outcome", "cancelled"))
	assert.Zero(t, p.value("redimutex_failed_total", "outcome", "unavailable"), "there before it happens")
	assert.EqualValues(t, 1, p.value("redimutex_contended_total"))
	assert.EqualValues(t, 1, p.value("redimutex_lost_total", "reason", "deleted"))
	assert.EqualValues(t, 1, p.value("redimutex_lost_total", "reason", "taken"))
	assert.EqualValues(t, 3, p.count("redimutex_hold_seconds", "outcome", "lost"))
	assert.EqualValues(t, 21, p.count("redimutex_hold_seconds", "outcome", "released"))
	assert.EqualValues(t, 1, p.count("redimutex_wait_seconds", "outcome", "locked"))
	assert.EqualValues(t, 1, p.count("redimutex_wait_seconds", "outcome", "cancelled"))
}

func TestErrorsAreShownByServer(t *testing.T) {
	t.Parallel()
	servers := locktest.Start(t, 3)
	client := servers.Client(t)
	registry := prometheus.NewPedanticRegistry()
	collect(t, registry, client, redimutexprom.WithServerNames("alpha", "beta", "gamma"))
	servers[1].Kill()
	m := client.Mutex("k")
	redistest.Wait(t, "an error of the dead server in the scrape", func() bool {
		m.Lock() // a majority is enough, so Lock may return before the error is counted
		m.Unlock()
		return scrape(t, registry).value("redimutex_server_errors_total", "server", "beta") > 0
	})
	p := scrape(t, registry)
	assert.Zero(t, p.value("redimutex_server_errors_total", "server", "alpha"))
	assert.Zero(t, p.value("redimutex_server_errors_total", "server", "gamma"))
	assert.Len(t, p["redimutex_server_errors_total"].GetMetric(), 3)

	servers[2].Kill()
	require.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrUnavailable)
	assert.EqualValues(t, 1, scrape(t, registry).count("redimutex_wait_seconds", "outcome", "unavailable"))
}

func TestTheAgeOfAHoldIsShownWhileItLasts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool(), redimutex.WithTTL(time.Minute), redimutex.WithLeaseReuse(20*time.Second))
	registry := prometheus.NewPedanticRegistry()
	collect(t, registry, client)
	const oldest = "redimutex_oldest_hold_seconds"
	assert.Zero(t, scrape(t, registry).value(oldest))
	m := client.Mutex("k")
	m.Lock()
	began := time.Now()
	redistest.Wait(t, "an age", func() bool { return scrape(t, registry).value(oldest) > 0.02 })
	redistest.Wait(t, "a higher age", func() bool { return scrape(t, registry).value(oldest) > 0.04 })
	age := scrape(t, registry).value(oldest)
	assert.LessOrEqual(t, age, time.Since(began).Seconds()+1)
	m.Unlock()
	assert.EqualValues(t, 1, scrape(t, registry).value("redimutex_locks_held"), "kept for the next hold")
	assert.Zero(t, scrape(t, registry).value(oldest), "and not in use")
}

func TestNamesAndHelpFollowTheConventions(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool())
	registry := prometheus.NewPedanticRegistry()
	collect(t, registry, client)
	m := client.Mutex("k")
	m.Lock()
	m.Unlock()
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
	for name := range scrape(t, registry) {
		assert.Regexp(t, `^redimutex_[a-z_]+$`, name)
	}
}

func TestCloseStopsObserving(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool())
	registry := prometheus.NewPedanticRegistry()
	c := collect(t, registry, client)
	m := client.Mutex("k")
	m.Lock()
	c.Close()
	c.Close() // once more does no harm
	m.Unlock()
	p := scrape(t, registry)
	assert.EqualValues(t, 1, p.count("redimutex_wait_seconds", "outcome", "acquired"))
	assert.Zero(t, p.count("redimutex_hold_seconds", "outcome", "released"))
	assert.EqualValues(t, 1, p.value("redimutex_released_total"), "which the Client itself counts")
	assert.True(t, registry.Unregister(c))
	assert.Empty(t, scrape(t, registry))
	collect(t, registry, client) // another Collector can be registered now
}
