package redimutexprom_test

import (
	"fmt"
	"strings"
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

func TestAThousandKeysMakeNoMoreSeries(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool(), redimutex.WithOwner("host 1"), redimutex.WithFencing(),
		redimutex.WithNodeTimeout(4*time.Second))
	registry := prometheus.NewPedanticRegistry()
	collect(t, registry, client)
	use := func(key string) {
		m := client.Mutex(key)
		m.Lock()
		require.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrLocked)
		m.Unlock()
	}
	use("first")
	before := scrape(t, registry).series()
	held := client.Mutex("held")
	held.Lock()
	defer held.Unlock()
	for i := range 1000 {
		use(fmt.Sprintf("invoice:%d", i))
	}
	after := scrape(t, registry)
	assert.Equal(t, before, after.series())
	assert.EqualValues(t, 1002, after.count("redimutex_wait_seconds", "outcome", "acquired"))
	assert.Less(t, before, 100, "what one Client costs the server that scrapes it")
}

func TestKeysAreALabelAsFarAsTheUserWants(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool(), redimutex.WithTTL(time.Minute))
	registry := prometheus.NewPedanticRegistry()
	collect(t, registry, client, redimutexprom.WithKeyLabel(func(key string) string {
		kind, _, _ := strings.Cut(key, ":")
		return kind
	}))
	for i := range 10 {
		for _, kind := range []string{"invoice", "user", "\xff\xfe"} {
			m := client.Mutex(fmt.Sprintf("%s:%d", kind, i))
			m.Lock()
			require.Error(t, m.TryLockContext(t.Context()))
			m.Unlock()
		}
	}
	held := client.Mutex("user:1")
	held.Lock()
	p := scrape(t, registry)
	for _, kind := range []string{"invoice", "user", "\uFFFD"} {
		assert.GreaterOrEqual(t, p.count("redimutex_wait_seconds", "outcome", "acquired", "key", kind), int64(10), kind)
		assert.EqualValues(t, 10, p.count("redimutex_wait_seconds", "outcome", "locked", "key", kind), kind)
		assert.EqualValues(t, 10, p.count("redimutex_hold_seconds", "outcome", "released", "key", kind), kind)
	}
	assert.Len(t, p["redimutex_hold_seconds"].GetMetric(), 3)
	assert.Len(t, p["redimutex_oldest_hold_seconds"].GetMetric(), 1)
	assert.Greater(t, p.value("redimutex_oldest_hold_seconds", "key", "user"), 0.0)
	held.Unlock()
	assert.Empty(t, scrape(t, registry)["redimutex_oldest_hold_seconds"])
}

func TestClientsWithLabelsOfTheirOwnShareARegistry(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	registry := prometheus.NewPedanticRegistry()
	orders, users := locktest.Client(t, s.Pool()), locktest.Client(t, s.Pool())
	collect(t, registry, orders, redimutexprom.WithLabels(prometheus.Labels{"client": "orders"}))
	collect(t, registry, users, redimutexprom.WithLabels(prometheus.Labels{"client": "users"}))
	m := orders.Mutex("k")
	m.Lock()
	m.Unlock()
	p := scrape(t, registry)
	assert.EqualValues(t, 1, p.value("redimutex_acquired_total", "client", "orders"))
	assert.Zero(t, p.value("redimutex_acquired_total", "client", "users"))
	assert.EqualValues(t, 1, p.count("redimutex_wait_seconds", "outcome", "acquired", "client", "orders"))

	same := redimutexprom.New(users, redimutexprom.WithLabels(prometheus.Labels{"client": "users"}))
	defer same.Close()
	assert.ErrorAs(t, registry.Register(same), &prometheus.AlreadyRegisteredError{})
}

func TestBucketsAreClassicUnlessNativeOnesAreAskedFor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool())
	classic, native := prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry()
	collect(t, classic, client, redimutexprom.WithBuckets([]float64{.5, 60}, nil))
	collect(t, native, client, redimutexprom.WithNativeHistograms())
	m := client.Mutex("k")
	m.Lock()
	m.Unlock()
	p := scrape(t, classic)
	buckets := p.find("redimutex_wait_seconds", "outcome", "acquired").GetHistogram().GetBucket()
	require.Len(t, buckets, 3)
	assert.InDelta(t, 0.5, buckets[0].GetUpperBound(), 0)
	assert.Len(t, p.find("redimutex_hold_seconds", "outcome", "released").GetHistogram().GetBucket(), 17)

	// The text format has no native buckets, so the test looks at the metrics behind it.
	for registry, want := range map[*prometheus.Registry]bool{classic: false, native: true} {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "redimutex_hold_seconds" {
				assert.Equal(t, want, len(f.GetMetric()[0].GetHistogram().GetPositiveSpan()) > 0)
			}
		}
	}
}

func TestNonsenseIsRefusedWithASentence(t *testing.T) {
	t.Parallel()
	client := locktest.Client(t, redistest.Start(t).Pool())
	for want, f := range map[string]func(){
		"needs a Client":             func() { redimutexprom.New(nil) },
		"an Option is nil":           func() { redimutexprom.New(client, nil) },
		"got 2 names, and the Clien": func() { redimutexprom.New(client, redimutexprom.WithServerNames("a", "b")) },
		"none may be empty":          func() { redimutexprom.New(client, redimutexprom.WithServerNames("")) },
		"redimutexprom: New: ":       func() { redimutexprom.New(client, redimutexprom.WithLabels(prometheus.Labels{"outcome": "a"})) },
		"is not a valid label name":  func() { redimutexprom.New(client, redimutexprom.WithLabels(prometheus.Labels{"": "a"})) },
		"increasing order":           func() { redimutexprom.New(client, redimutexprom.WithBuckets([]float64{2, 1}, nil)) },
	} {
		assert.ErrorContains(t, locktest.PanicOf(f), want)
	}
}
