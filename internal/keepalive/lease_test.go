package lease_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/lease"
)

// The tests run in bubbles of virtual time, where a timer fires at its very moment. A bubble fails
// when a goroutine is left over, so each test is a leak check too.

const ttl = 9 * time.Second

var (
	errOver  = errors.New("over")
	errTaken = errors.New("taken")
)

// A teller counts the losses that it is told.
type teller struct {
	times atomic.Int64
	last  atomic.Value
}

func (h *teller) Lost(err error) {
	h.times.Add(1)
	h.last.Store(err)
}

// start begins a lease that is valid for ttl.
func start(t *testing.T, k *lease.Keeper, change func(*lease.Terms)) *lease.Lease {
	t.Helper()
	terms := lease.Terms{Until: time.Now().Add(ttl), TTL: ttl, Renew: true}
	if change != nil {
		change(&terms)
	}
	l := new(lease.Lease)
	require.True(t, k.Start(l, terms))
	return l
}

// extendAll is a renewal that succeeds at once.
func extendAll(batch []*lease.Lease) {
	for _, l := range batch {
		l.Extended(time.Now().Add(l.TTL()), l.TTL())
	}
}

func none([]*lease.Lease) {}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestALeaseIsRenewedEveryThirdOfItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		k := lease.NewKeeper(func(batch []*lease.Lease) {
			at = append(at, time.Since(began))
			extendAll(batch)
		})
		l := start(t, k, nil)
		time.Sleep(10 * ttl)
		synctest.Wait()
		require.Len(t, at, 30)
		for i, when := range at {
			assert.Equal(t, time.Duration(i+1)*ttl/3, when)
		}
		require.NoError(t, l.Err())
		assert.False(t, closed(l.Done()))
		assert.Equal(t, began, l.Began())
		k.Close(errOver)
	})
}

func TestALeaseWithoutRenewalEndsBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := lease.NewKeeper(func([]*lease.Lease) { t.Error("renewed") })
		var h teller
		l := start(t, k, func(terms *lease.Terms) { terms.Renew, terms.Holder = false, &h })
		assert.Same(t, &h, l.Holder())
		<-l.Done()
		left := time.Until(l.Until())
		assert.Positive(t, left)
		assert.LessOrEqual(t, left, 50*time.Millisecond, "it ended far too early")
		require.ErrorIs(t, l.Err(), lease.ErrExpired)
		synctest.Wait()
		assert.EqualValues(t, 1, h.times.Load())
		assert.Equal(t, lease.ErrExpired, h.last.Load())
		assert.Zero(t, k.Len())
		k.Close(errOver)
	})
}

func TestAFailedRenewalIsRepeatedUntilTheValidityEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		k := lease.NewKeeper(func([]*lease.Lease) { at = append(at, time.Since(began)) })
		l := start(t, k, nil)
		<-l.Done()
		synctest.Wait()
		require.Greater(t, len(at), 10)
		assert.Equal(t, ttl/3, at[0])
		for i := range len(at) - 1 {
			assert.LessOrEqual(t, at[i+1]-at[i], 500*time.Millisecond)
		}
		assert.Less(t, ttl-at[len(at)-1], time.Second, "it gave up long before the end")
		n := len(at)
		time.Sleep(ttl)
		assert.Len(t, at, n, "renewed after the loss")
		k.Close(errOver)
	})
}

func TestARenewalThatSucceedsAfterFailuresKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		k := lease.NewKeeper(func(batch []*lease.Lease) {
			if calls++; calls%8 == 0 {
				extendAll(batch)
			}
		})
		l := start(t, k, nil)
		time.Sleep(20 * ttl)
		require.NoError(t, l.Err())
		k.Close(errOver)
	})
}

// All workers hang here, so the renewals of the other leases don't even begin.
func TestHungRenewalsDelayNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		k := lease.NewKeeper(func([]*lease.Lease) { <-hang })
		var all sync.WaitGroup
		for i := range 200 {
			l := start(t, k, func(terms *lease.Terms) {
				terms.TTL = ttl + time.Duration(i)*100*time.Millisecond
				terms.Until = time.Now().Add(terms.TTL)
			})
			all.Go(func() {
				<-l.Done()
				assert.Positive(t, time.Until(l.Until()), "lease %d", i)
			})
		}
		all.Wait()
		close(hang)
		k.Close(errOver)
	})
}

func TestErrGoesByTheClockAndNotByTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := lease.NewKeeper(none)
		var h teller
		// The timer of a validity that is over already has not fired when Err is asked.
		l := start(t, k, func(terms *lease.Terms) { terms.Until, terms.Holder = time.Now(), &h })
		require.ErrorIs(t, l.Err(), lease.ErrExpired)
		assert.False(t, l.Extended(time.Now().Add(ttl), ttl), "an expired lease was revived")
		was, _ := l.End(errOver)
		require.ErrorIs(t, was, lease.ErrExpired, "End did not notice the expiry")
		synctest.Wait()
		require.ErrorIs(t, l.Err(), lease.ErrExpired)
		assert.EqualValues(t, 1, h.times.Load(), "how often the loss was told")
		k.Close(errOver)
	})
}

func TestTheFirstEndWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := lease.NewKeeper(extendAll)
		var h teller
		holder := func(terms *lease.Terms) { terms.Holder = &h }

		l := start(t, k, holder)
		was, renewing := l.End(errOver)
		require.NoError(t, was)
		assert.Nil(t, renewing)
		l.Lose(errTaken)
		require.ErrorIs(t, l.Err(), errOver)
		time.Sleep(2 * ttl)
		require.ErrorIs(t, l.Err(), errOver, "the validity went on counting after the end")
		was, _ = l.End(errTaken)
		require.ErrorIs(t, was, errOver)
		assert.Zero(t, h.times.Load(), "End is no loss")

		l = start(t, k, holder)
		l.Lose(errTaken)
		l.Lose(errTaken)
		was, _ = l.End(errOver)
		require.ErrorIs(t, was, errTaken)
		require.ErrorIs(t, l.Err(), errTaken)
		assert.EqualValues(t, 1, h.times.Load())
		assert.False(t, l.Extended(time.Now().Add(ttl), ttl), "a lost lease was revived")
		assert.True(t, closed(l.Done()), "Done of a lease that has ended, asked for the first time")
		k.Close(errOver)
	})
}

func TestRacingEndsLeaveOneReason(t *testing.T) {
	for range 500 {
		k := lease.NewKeeper(none)
		var h teller
		var calls atomic.Int64
		l := start(t, k, func(terms *lease.Terms) { terms.Holder = &h })
		l.AfterEnd(func() { calls.Add(1) })
		var all sync.WaitGroup
		var was error
		all.Go(func() { was, _ = l.End(errOver) })
		all.Go(func() { l.Lose(errTaken) })
		all.Go(func() { k.Close(lease.ErrExpired) })
		all.Go(func() { <-l.Done() })
		all.Wait()
		require.EqualValues(t, 1, calls.Load(), "how often AfterEnd was called")
		if was == nil {
			require.ErrorIs(t, l.Err(), errOver)
			require.Zero(t, h.times.Load())
		} else {
			require.Equal(t, was, l.Err())
			require.EqualValues(t, 1, h.times.Load())
		}
		require.Zero(t, k.Len())
	}
}

func TestAfterEndIsCalledOnceWhateverTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := lease.NewKeeper(none)
		ends := map[string]func(*lease.Lease){
			"End":    func(l *lease.Lease) { l.End(errOver) },
			"Lose":   func(l *lease.Lease) { l.Lose(errTaken) },
			"expiry": func(*lease.Lease) { time.Sleep(ttl) },
		}
		for name, end := range ends {
			l := start(t, k, nil)
			var calls atomic.Int64
			// The functions may ask the lease, so no lock is held.
			f := func() {
				calls.Add(1)
				require.Error(t, l.Err(), name)
				assert.True(t, closed(l.Done()), name)
			}
			l.AfterEnd(f)
			l.AfterEnd(f)
			assert.Zero(t, calls.Load(), name)
			end(l)
			synctest.Wait()
			assert.EqualValues(t, 2, calls.Load(), name)
			l.AfterEnd(f)
			assert.EqualValues(t, 3, calls.Load(), "%s: a lease that has ended calls at once", name)
		}
		k.Close(errOver)
	})
}

func TestMaxHoldStopsTheRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxHold = 5 * ttl
		began := time.Now()
		k := lease.NewKeeper(func(batch []*lease.Lease) {
			if age := time.Since(began); age >= maxHold {
				t.Errorf("renewed at the age of %v", age)
			}
			extendAll(batch)
		})
		l := start(t, k, func(terms *lease.Terms) { terms.MaxHold = maxHold })
		<-l.Done()
		age := time.Since(began)
		assert.Greater(t, age, maxHold)
		assert.LessOrEqual(t, age, maxHold+ttl)
		require.ErrorIs(t, l.Err(), lease.ErrExpired)
		k.Close(errOver)
	})
}

func TestExtendedMovesTheEndEitherWay(t *testing.T) {
	for _, length := range []time.Duration{ttl / 9, ttl * 9} {
		synctest.Test(t, func(t *testing.T) {
			k := lease.NewKeeper(none)
			l := start(t, k, func(terms *lease.Terms) { terms.Renew = false })
			time.Sleep(ttl / 2)
			end := time.Now().Add(length)
			require.True(t, l.Extended(end, length))
			assert.Equal(t, end, l.Until())
			assert.Equal(t, length, l.TTL())
			<-l.Done()
			left := time.Until(end)
			assert.Positive(t, left)
			assert.LessOrEqual(t, left, 50*time.Millisecond)
			k.Close(errOver)
		})
	}
}

func TestRenewalsFollowTheTTLOfTheLastExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		k := lease.NewKeeper(func(batch []*lease.Lease) {
			at = append(at, time.Now())
			extendAll(batch)
		})
		l := start(t, k, nil)
		time.Sleep(ttl / 10)
		began := time.Now()
		require.True(t, l.Extended(began.Add(ttl/9), ttl/9))
		time.Sleep(ttl)
		synctest.Wait()
		require.NoError(t, l.Err())
		require.Greater(t, len(at), 20)
		assert.InDelta(t, ttl/27, at[0].Sub(began), 1)
		k.Close(errOver)
	})
}
