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
		const hangs = time.Hour // marks them
		hang := make(chan struct{})
		k := keepalive.New(func(due []*keepalive.Lease) {
			var all sync.WaitGroup
			for _, l := range due {
				all.Go(func() {
					if l.Holder().(*teller).terms.MaxHold == hangs {
						<-hang
						l.Renewed(false)
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

// Leases are ended at random moments, and the renewals take their time.
func TestNoRenewalStartsAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended sync.Map // when, of each lease
		var renewals atomic.Int64
		k := keepalive.New(func(due []*keepalive.Lease) {
			for _, l := range due {
				if at, ok := ended.Load(l); ok && at.(time.Time).Before(time.Now()) {
					t.Error("a renewal began after the end")
				}
			}
			renewals.Add(int64(len(due)))
			time.Sleep(rand.N(ttl / 2))
			succeed(due)
		})
		var all sync.WaitGroup
		for range 2000 {
			l, h := start(t, k, lasting(ttl+rand.N(ttl)))
			all.Go(func() {
				time.Sleep(rand.N(3 * ttl))
				assert.Equal(t, keepalive.Unlocked, l.End(time.Now()))
				ended.Store(l, time.Now())
				time.Sleep(2 * ttl)
				assert.Zero(t, h.times.Load())
			})
		}
		all.Wait()
		assert.Greater(t, renewals.Load(), int64(1000), "this tests nothing")
		assert.Zero(t, k.Len())
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
		assert.Equal(t, 1000, k.Len())
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
		assert.Zero(t, k.Len())
		n := calls.Load()
		time.Sleep(5 * ttl)
		assert.Equal(t, n, calls.Load(), "renewed after Close")
		k.Close() // again, without effect
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
		assert.Equal(t, n, k.Len())
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

// A server that hands the lock over gives it for a short time, which is asked to be longer before any renewal is due.
func TestAHandOffLeaseIsRenewedSoon(t *testing.T) {
	for name, renew := range map[string]bool{"renewed": true, "fixed": false} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var at []time.Duration
			k := keepalive.New(func(due []*keepalive.Lease) {
				at = append(at, time.Since(began))
				time.Sleep(20 * time.Millisecond)
				if len(at) < 4 {
					fail(due)
				} else {
					succeed(due)
				}
			})
			start(t, k, nil) // the timer is set for much later
			l, h := start(t, k, func(terms *keepalive.Terms) {
				terms.Renew, terms.HandOff, terms.Until = renew, 300*time.Millisecond, began.Add(297*time.Millisecond)
				if !renew {
					terms.MaxHold = time.Millisecond // is about renewals
				}
			})
			time.Sleep(300 * time.Millisecond)
			synctest.Wait()
			require.Len(t, at, 4, name)
			first, last := at[0], at[3]
			assert.Equal(t, keepalive.Patience, first, name)
			assert.Less(t, last, 150*time.Millisecond, name)
			assert.Equal(t, keepalive.Alive, l.Reason(), name)
			if renew {
				time.Sleep(2 * ttl)
				assert.Equal(t, keepalive.Alive, l.Reason(), name)
			} else {
				lived(t, h, began.Add(last+20*time.Millisecond+ttl), ttl)
			}
			k.Close()
		})
	}
}

func TestAHandOffLeaseThatNobodyRenewsIsLostInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(fail)
		const handOff = 300 * time.Millisecond
		_, h := start(t, k, func(terms *keepalive.Terms) {
			terms.HandOff, terms.Until = handOff, terms.Began.Add(handOff)
		})
		lived(t, h, h.terms.Until, handOff)
		k.Close()
	})
}

// A TTL that is shorter than the hand-off takes nothing away.
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
