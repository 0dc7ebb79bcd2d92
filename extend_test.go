package redimutex_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestExtendMovesTheEndAndWhatRenewalsAskFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		m := newMutex(t, pool, "k", redimutex.WithTTL(10*time.Second))
		m.Lock()
		l := m.Lease()
		for _, ttl := range []time.Duration{10 * time.Second, 100 * time.Second, time.Hour} {
			require.NoError(t, l.Extend(t.Context(), ttl))
			assert.Equal(t, time.Now().Add(ttl-ttl/100-2*time.Millisecond), l.Until())
			assert.Equal(t, ttl, server.TTL("k"))
			time.Sleep(5 * ttl)
			require.NoError(t, l.Err(), "renewed")
			assert.Greater(t, server.TTL("k"), ttl/2)
			assert.LessOrEqual(t, server.TTL("k"), ttl)
		}
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}

// The last writer's fence must still be on the server when a reader asks for it.
func TestTheFenceCounterOutlivesWhatExtendHasAskedFor(t *testing.T) {
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", redimutex.WithFencing())
	m.Lock()
	require.NoError(t, m.Lease().Extend(t.Context(), 6*time.Hour))
	assert.Greater(t, s.PTTL(server.FenceKey("k")), 6*time.Hour)
	m.Unlock()
}

func TestExtendNeverBringsTheEndNearer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		m := newMutex(t, pool, "k", redimutex.WithTTL(time.Hour))
		m.Lock()
		l := m.Lease()
		until := l.Until()
		require.NoError(t, l.Extend(t.Context(), 10*time.Second))
		assert.Equal(t, until, l.Until())
		assert.Equal(t, time.Hour, server.TTL("k"))
		time.Sleep(2 * time.Hour)
		require.NoError(t, l.Err(), "renewed")
		assert.LessOrEqual(t, time.Until(l.Until()), 10*time.Second, "renewals ask for what Extend asked for")
		assert.LessOrEqual(t, server.TTL("k"), 10*time.Second)
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}

func TestExtendShortensNoKindOfLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(9*time.Second))
	for key, acquire := range map[string]locktest.Acquire{
		"permit": c.Semaphore("permit", 2).Acquire, "reader": c.RWMutex("reader").RAcquire,
		"writer": c.RWMutex("writer").Acquire, "all": c.MutexAll([]string{"all", "more"}).Acquire,
	} {
		l, err := acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Extend(t.Context(), 2*time.Hour))
		require.NoError(t, l.Extend(t.Context(), time.Minute))
		assert.Greater(t, s.PTTL(key), time.Hour, key)
		require.NoError(t, l.Release(t.Context()))
	}
}

func TestExtendWithoutRenewalCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		m := newMutex(t, pool, "k", redimutex.WithTTL(10*time.Second), redimutex.WithoutRenewal())
		m.Lock()
		l := m.Lease()
		time.Sleep(8 * time.Second)
		extended := time.Now()
		require.NoError(t, l.Extend(t.Context(), 20*time.Second))
		<-l.Done()
		assert.WithinDuration(t, extended.Add(20*time.Second), time.Now(), 300*time.Millisecond)
		assert.Error(t, m.UnlockContext(t.Context()))
	})
}

func TestExtendRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	m.Lock()
	l := m.Lease()
	until := l.Until()
	for _, ttl := range []time.Duration{-time.Second, 0, 500 * time.Microsecond, 9 * time.Millisecond, math.MaxInt64} {
		assert.ErrorContains(t, l.Extend(t.Context(), ttl), ttl.String())
	}
	assert.Equal(t, until, l.Until(), "nothing has changed")
	assert.True(t, s.Exists("k"))
	cause := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	assert.ErrorIs(t, l.Extend(ctx, time.Minute), cause)

	m.Unlock()
	assert.ErrorIs(t, l.Extend(t.Context(), time.Minute), redimutex.ErrUnlocked)
	assert.False(t, s.Exists("k"), "an extension never re-creates a key")
}

func TestExtendWaitsForARenewalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		hung := redistest.NewBetween(pool)
		m := newMutex(t, hung, "k", redimutex.WithTTL(9*time.Second), redimutex.WithNodeTimeout(8*time.Second))
		m.Lock()
		l := m.Lease()
		answer := hung.Hold()
		time.Sleep(4 * time.Second) // a renewal is under way
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, l.Extend(ctx, time.Minute), context.DeadlineExceeded)
		extended := make(chan error, 2)
		go func() { extended <- l.Extend(t.Context(), time.Minute) }()
		synctest.Wait()
		assert.Empty(t, extended)
		hung.Set(nil)
		answer()
		assert.NoError(t, <-extended)
		assert.Greater(t, time.Until(l.Until()), 50*time.Second)
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}

func TestExtendThatWaitsHearsOfTheEndOfTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		hung := redistest.NewBetween(pool)
		m := newMutex(t, hung, "k", redimutex.WithTTL(9*time.Second), redimutex.WithNodeTimeout(8*time.Second))
		m.Lock()
		l := m.Lease()
		answer := hung.Hold()
		time.Sleep(4 * time.Second)
		extended := make(chan error)
		go func() { extended <- l.Extend(l.Context(t.Context()), time.Minute) }()
		<-l.Done()
		assert.ErrorIs(t, <-extended, redimutex.ErrLost)
		hung.Set(nil)
		answer()
		assert.Error(t, m.UnlockContext(t.Context()))
	})
}

func TestExtendFindsALoss(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	for lose, reason := range map[string]redimutex.Reason{"DEL": redimutex.Deleted, "SET": redimutex.Taken, "LPUSH": redimutex.Taken} {
		s.Do("DEL", "k")
		m.Lock()
		l := m.Lease()
		s.Do("DEL", "k")
		if reason == redimutex.Taken {
			s.Do(lose, "k", "another")
			s.Do("PEXPIRE", "k", "60000")
		}
		for range 2 {
			err := l.Extend(t.Context(), time.Minute)
			assert.ErrorIs(t, err, redimutex.ErrLost)
			var value *redimutex.LostError
			require.ErrorAs(t, err, &value)
			assert.Equal(t, &redimutex.LostError{Key: "k", Reason: reason}, value)
		}
		assert.True(t, ended(l.Done()))
		if reason == redimutex.Taken {
			assert.Greater(t, s.PTTL("k"), 10*time.Second, "the other's TTL is not touched")
		}
		assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
	}
}

func TestExtendReportsThatNobodyAnswersAndTheLeaseGoesOn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := redistest.NewBetween(s.Pool())
	m := newMutex(t, pool, "k", redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(30*time.Second))
	m.Lock()
	l := m.Lease()
	until := l.Until()
	pool.Set(redistest.Cut)
	assert.ErrorIs(t, l.Extend(t.Context(), 2*time.Hour), redimutex.ErrUnavailable)
	assert.Equal(t, until, l.Until())

	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := make(chan struct{})
	pool.Set(func(command redistest.Command) (any, error) {
		cancel(cause)
		<-answer
		return command.Run()
	})
	assert.ErrorIs(t, l.Extend(ctx, 2*time.Hour), cause)
	assert.NoError(t, l.Err())
	pool.Set(nil)
	close(answer)
	assert.NoError(t, m.UnlockContext(t.Context()))
}
