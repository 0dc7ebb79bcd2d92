package keepalive_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/keepalive"
)

func TestHungRenewalsDelayNoLossAndNoOtherRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hangs = time.Hour // a MaxHold that marks the leases whose renewal hangs
		hang := make(chan struct{})
		k := keepalive.New(func(due []*keepalive.Lease) {
			var all sync.WaitGroup
			for _, l := range due {
				all.Go(func() {
					if l.Holder().(*teller).terms.MaxHold == hangs {
						<-hang
						l.Renewed()
					} else {
						succeed([]*keepalive.Lease{l})
					}
				})
			}
			all.Wait()
		})
		var all sync.WaitGroup
		var healthy []*keepalive.Lease
		for i := range 200 {
			span := ttl + time.Duration(i)*100*time.Millisecond
			if i%2 == 0 {
				l, _ := start(t, k, lasting(span))
				healthy = append(healthy, l)
				continue
			}
			_, h := start(t, k, func(terms *keepalive.Terms) { lasting(span)(terms); terms.MaxHold = hangs })
			all.Go(func() { lived(t, h, h.terms.Until, span) })
		}
		all.Wait()
		for _, l := range healthy {
			assert.Equal(t, keepalive.Alive, l.Reason())
		}
		close(hang)
		k.Close()
	})
}

func TestCloseEndsEveryLeaseAndWaitsForTheRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, calls atomic.Int64
		k := keepalive.New(func(due []*keepalive.Lease) {
			calls.Add(1)
			running.Add(1)
			time.Sleep(ttl / 3)
			fail(due)
			running.Add(-1)
		})
		var leases []*keepalive.Lease
		var tellers []*teller
		for range 1000 {
			l, h := start(t, k, nil)
			leases, tellers = append(leases, l), append(tellers, h)
		}
		assert.Len(t, k.Leases(), 1000)
		assert.ElementsMatch(t, leases, k.Leases())
		time.Sleep(ttl/3 + time.Millisecond)
		require.Positive(t, running.Load())
		k.Close()
		assert.Zero(t, running.Load(), "Close came back before a renewal was over")
		for i, l := range leases {
			require.Equal(t, keepalive.Closed, l.Reason())
			require.EqualValues(t, 1, tellers[i].times.Load())
			require.Equal(t, keepalive.Closed, tellers[i].reason())
		}
		assert.Empty(t, k.Leases())
		n := calls.Load()
		time.Sleep(5 * ttl)
		assert.Equal(t, n, calls.Load(), "renewed after Close")
		k.Close() // a second Close has no effect
	})
}

type holder func()

func (lost holder) Lost(keepalive.Reason) { lost() }

func TestCloseWaitsForALossThatIsBeingTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(never(t))
		var told atomic.Bool
		start(t, k, func(terms *keepalive.Terms) {
			fixed(terms)
			terms.Holder = holder(func() {
				time.Sleep(time.Minute)
				told.Store(true)
			})
		})
		time.Sleep(ttl)
		k.Close()
		assert.True(t, told.Load())
	})
}

func TestTenThousandLeasesAreRenewedInFewBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		var mu sync.Mutex
		most, batches, renewed := 0, 0, 0
		idle := runtime.NumGoroutine()
		k := keepalive.New(func(due []*keepalive.Lease) {
			mu.Lock()
			most = max(most, runtime.NumGoroutine()-idle)
			batches++
			renewed += len(due)
			mu.Unlock()
			if !slices.IsSortedFunc(due, func(a, b *keepalive.Lease) int { return a.Until().Compare(b.Until()) }) {
				t.Error("a batch that does not begin with the lease that ends first")
			}
			time.Sleep(5 * time.Millisecond)
			succeed(due)
		})
		leases := make([]*keepalive.Lease, n)
		for i := range leases {
			leases[i], _ = start(t, k, lasting(ttl+rand.N(100*time.Millisecond)))
		}
		assert.Len(t, k.Leases(), n)
		assert.LessOrEqual(t, runtime.NumGoroutine(), idle, "leases cost goroutines before anything is due")
		time.Sleep(3 * ttl)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		assert.LessOrEqual(t, most, 6)
		assert.GreaterOrEqual(t, renewed, 8*n)
		assert.LessOrEqual(t, renewed, 9*n, "renewed more often than every third")
		assert.Greater(t, renewed, 100*batches, "renewals hardly come in batches")
		for _, l := range leases {
			require.Equal(t, keepalive.Alive, l.Reason())
		}
		k.Close()
	})
}

// A TTL that is shorter than the hand-off does not shorten the lease.
func TestAHandOffLeaseMayBeLongerThanTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewals atomic.Int64
		k := keepalive.New(func(due []*keepalive.Lease) {
			renewals.Add(int64(len(due)))
			succeed(due)
		})
		const short, handOff = 60 * time.Millisecond, 600 * time.Millisecond
		l, _ := start(t, k, func(terms *keepalive.Terms) {
			terms.TTL, terms.HandOff, terms.Until = short, handOff, terms.Began.Add(handOff)
		})
		time.Sleep(short)
		assert.Equal(t, initial(l), l.Until())
		time.Sleep(ttl)
		assert.Equal(t, keepalive.Alive, l.Reason())
		assert.LessOrEqual(t, renewals.Load(), int64(ttl/(short/4)))
		k.Close()
	})
}
