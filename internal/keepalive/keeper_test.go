package lease_test

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

	"github.com/redimutex/redimutex/internal/lease"
)

// Thousands of leases, with TTLs from 10 ms to a minute, against servers that are slow, silent or
// say that the lock is gone: nobody hears of a loss after the validity has ended.
func TestDoneClosesBeforeTheValidityEnds(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			rnd := rand.New(rand.NewPCG(7, seed))
			random := func(n time.Duration) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(rnd.Int64N(int64(n)))
			}
			k := lease.NewKeeper(func(batch []*lease.Lease) {
				sent := time.Now()
				time.Sleep(random(20 * time.Millisecond))
				if random(20) == 0 {
					time.Sleep(random(3 * time.Second)) // the server hangs
				}
				for _, l := range batch {
					switch random(6) {
					case 0, 1: // failed
					case 2:
						l.Lose(errTaken)
					default:
						l.Extended(sent.Add(l.TTL()), l.TTL())
					}
				}
			})
			worst, expired := time.Hour, 0
			var all sync.WaitGroup
			for range 1000 {
				d := 10*time.Millisecond + random(time.Second)
				if random(10) == 0 {
					d += random(time.Minute)
				}
				l := start(t, k, func(terms *lease.Terms) { terms.TTL, terms.Until = d, time.Now().Add(d) })
				all.Go(func() {
					<-l.Done()
					left := time.Until(l.Until())
					mu.Lock()
					defer mu.Unlock()
					worst = min(worst, left)
					if l.Err() == lease.ErrExpired {
						expired++
					}
				})
			}
			all.Wait()
			assert.GreaterOrEqual(t, worst, time.Duration(0), "seed %d", seed)
			assert.Greater(t, expired, 50, "seed %d tests nothing", seed)
			k.Close(errOver)
		})
	}
}

// Leases are ended at random moments, and the renewals take their time. End says whether a renewal
// is under way, and none begins later.
func TestNoRenewalStartsAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		over := make(map[*lease.Lease]bool)
		under := make(map[*lease.Lease]bool)
		k := lease.NewKeeper(func(batch []*lease.Lease) {
			mu.Lock()
			for _, l := range batch {
				if over[l] {
					t.Error("a renewal began after the end")
				}
				under[l] = true
			}
			mu.Unlock()
			time.Sleep(rand.N(ttl))
			extendAll(batch)
			mu.Lock()
			for _, l := range batch {
				delete(under, l)
			}
			mu.Unlock()
		})
		met := 0
		var all sync.WaitGroup
		for range 2000 {
			l := start(t, k, func(terms *lease.Terms) {
				terms.TTL += rand.N(ttl)
				terms.Until = time.Now().Add(terms.TTL)
			})
			all.Go(func() {
				time.Sleep(rand.N(3 * ttl))
				_, renewing := l.End(errOver)
				if renewing != nil {
					<-renewing
				}
				mu.Lock()
				defer mu.Unlock()
				if renewing != nil {
					met++
				}
				if under[l] {
					t.Error("a renewal is under way, and End did not tell")
				}
				over[l] = true
			})
		}
		all.Wait()
		time.Sleep(5 * ttl)
		assert.Greater(t, met, 20, "no End met a renewal, so this tests nothing")
		k.Close(errOver)
	})
}

func TestCloseEndsEveryLeaseAndWaitsForTheRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int64
		k := lease.NewKeeper(func([]*lease.Lease) {
			running.Add(1)
			time.Sleep(ttl / 3)
			running.Add(-1)
		})
		var h teller
		var all []*lease.Lease
		for range 1000 {
			all = append(all, start(t, k, func(terms *lease.Terms) { terms.Holder = &h }))
		}
		assert.Equal(t, 1000, k.Len())
		time.Sleep(ttl/3 + time.Millisecond)
		require.Positive(t, running.Load())
		k.Close(errOver)
		assert.Zero(t, running.Load(), "Close came back before a renewal was over")
		assert.EqualValues(t, 1000, h.times.Load())
		for _, l := range all {
			require.ErrorIs(t, l.Err(), errOver)
			require.True(t, closed(l.Done()))
		}
		assert.Zero(t, k.Len())
		assert.False(t, k.Start(new(lease.Lease), lease.Terms{Until: time.Now().Add(ttl), TTL: ttl}), "a closed Keeper took a lease")
		k.Close(errTaken) // again, without effect
		require.ErrorIs(t, all[0].Err(), errOver)
	})
}

func TestCloseRacesWithStartAndTheTimer(t *testing.T) {
	for range 200 {
		k := lease.NewKeeper(extendAll)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 20 {
					l := new(lease.Lease)
					d := rand.N(2 * time.Millisecond)
					if k.Start(l, lease.Terms{Until: time.Now().Add(d), TTL: d, Renew: true}) {
						runtime.Gosched()
						l.End(errOver)
					}
				}
			})
		}
		all.Go(func() { k.Close(errOver) })
		all.Wait()
		require.Zero(t, k.Len())
	}
}

func TestAHandfulOfGoroutinesRenewsTenThousandLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		var mu sync.Mutex
		most, batches, renewed, unsorted := 0, 0, 0, 0
		var last time.Time // end of the lease that was handed out last
		idle := runtime.NumGoroutine()
		k := lease.NewKeeper(func(batch []*lease.Lease) {
			mu.Lock()
			most = max(most, runtime.NumGoroutine()-idle)
			batches++
			renewed += len(batch)
			if !slices.IsSortedFunc(batch, func(a, b *lease.Lease) int { return a.Until().Compare(b.Until()) }) {
				unsorted++
			}
			last = batch[len(batch)-1].Until()
			mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			extendAll(batch)
		})
		leases := make([]*lease.Lease, n)
		for i := range leases {
			leases[i] = start(t, k, func(terms *lease.Terms) {
				terms.Until = terms.Until.Add(rand.N(100 * time.Millisecond))
			})
		}
		assert.Equal(t, n, k.Len())
		assert.LessOrEqual(t, runtime.NumGoroutine(), idle, "leases cost goroutines before anything is due")
		time.Sleep(3 * ttl)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		assert.LessOrEqual(t, most, 4+2)
		assert.Zero(t, unsorted, "batches that do not begin with the lease that ends first")
		assert.False(t, last.IsZero())
		assert.GreaterOrEqual(t, renewed, 8*n)
		assert.Greater(t, renewed, 20*batches, "renewals hardly come in batches")
		for _, l := range leases {
			require.NoError(t, l.Err())
		}
		k.Close(errOver)
	})
}

// With more leases due than the workers can take, those that end first go first.
func TestTheLeaseThatEndsFirstIsRenewedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var ends []time.Time
		open := make(chan struct{})
		k := lease.NewKeeper(func(batch []*lease.Lease) {
			<-open
			mu.Lock()
			for _, l := range batch {
				ends = append(ends, l.Until())
			}
			mu.Unlock()
			time.Sleep(time.Millisecond)
			extendAll(batch)
		})
		// These keep all workers busy while the others fall due.
		for range 4 {
			start(t, k, func(terms *lease.Terms) { terms.TTL, terms.Until = 3*ttl, time.Now().Add(2*ttl) })
			time.Sleep(time.Millisecond)
		}
		for i := range 1000 {
			start(t, k, func(terms *lease.Terms) {
				terms.Until = time.Now().Add(ttl + rand.N(ttl/4))
				if i < 500 { // these are due first, but end later
					terms.TTL = 2 * ttl
					terms.Until = time.Now().Add(ttl*3/2 + rand.N(ttl/4))
				}
			})
		}
		time.Sleep(ttl * 3 / 4)
		close(open)
		time.Sleep(time.Second)
		mu.Lock()
		first := slices.Clone(ends[4:min(len(ends), 1004)])
		mu.Unlock()
		require.Len(t, first, 1000)
		// Four workers report side by side, so the order is that of whole batches.
		for i := 0; i+512 < len(first); i += 128 {
			assert.True(t, first[i].Before(first[i+512]), "a lease that ends at %v came before one that ends at %v", first[i], first[i+512])
		}
		k.Close(errOver)
	})
}
