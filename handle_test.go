package redimutex_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// acquirers returns the verbs that return a hold.
func acquirers(m *redimutex.Mutex) map[string]locktest.Acquire {
	return map[string]locktest.Acquire{"Acquire": m.Acquire, "TryAcquire": m.TryAcquire}
}

func TestAcquireReturnsTheHoldAndReleaseEndsIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", redimutex.WithFencing())
	for verb, acquire := range acquirers(m) {
		l, err := acquire(t.Context())
		require.NoError(t, err, verb)
		assert.Equal(t, s.Get("k"), l.Token())
		assert.Same(t, l, m.Lease())
		assert.NotZero(t, l.Fence())
		assert.NoError(t, l.Err())
		_, err = m.TryAcquire(t.Context())
		assert.ErrorIs(t, err, redimutex.ErrLocked)

		require.NoError(t, l.Release(t.Context()))
		assert.False(t, s.Exists("k"))
		assert.Nil(t, m.Lease())
		assert.True(t, ended(l.Done()))
		assert.ErrorIs(t, l.Err(), redimutex.ErrUnlocked)
	}
}

func TestAcquireWithoutTheLockReturnsNoHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	s.Do("SET", "k", "foreign", "PX", "60000")
	l, err := m.TryAcquire(t.Context())
	assert.ErrorIs(t, err, redimutex.ErrLocked)
	assert.Nil(t, l)
	ctx, cancel := context.WithCancelCause(t.Context())
	got := make(chan error)
	go func() {
		l, err := m.Acquire(ctx)
		assert.Nil(t, l)
		got <- err
	}()
	redistest.Wait(t, "the waiter", func() bool { return m.Client().Stats().Waiting > 0 })
	cancel(assert.AnError)
	assert.ErrorIs(t, <-got, assert.AnError)
}

func TestAHoldIsReleasedOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrUnlocked, "never locked")
	for first, end := range map[string]func(l *redimutex.Lease) error{
		"Release":       func(l *redimutex.Lease) error { return l.Release(t.Context()) },
		"UnlockContext": func(*redimutex.Lease) error { return m.UnlockContext(t.Context()) },
		"Unlock":        func(*redimutex.Lease) error { m.Unlock(); return nil },
	} {
		l, err := m.Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, end(l))
		assert.ErrorIs(t, l.Release(t.Context()), redimutex.ErrUnlocked, "after %s", first)
		assert.NotErrorIs(t, l.Release(t.Context()), redimutex.ErrLost)
		assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrUnlocked)
		assert.ErrorIs(t, panicOf(m.Unlock), redimutex.ErrUnlocked)
	}
}

func TestAStaleLeaseNeverEndsTheNextHold(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]redimutex.Option{
		"plain": nil,
		"reuse": {redimutex.WithLeaseReuse(time.Second)},
		"queue": {redimutex.WithQueue()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			m := newMutex(t, s.Pool(), "k", append(opts, redimutex.WithTTL(time.Minute))...)
			stale, err := m.Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, stale.Release(t.Context()))
			next, err := m.Acquire(t.Context())
			require.NoError(t, err)
			assert.ErrorIs(t, stale.Release(t.Context()), redimutex.ErrUnlocked)
			assert.NoError(t, next.Err())
			assert.Same(t, next, m.Lease())
			assert.Equal(t, next.Token(), s.Get("k"))
			require.NoError(t, next.Release(t.Context()))
		})
	}
}

func TestOfUnlockAndReleaseAtOnceExactlyOneEndsTheHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, s.Pool(), redimutex.WithLeaseReuse(time.Second))
	m := client.Mutex("k")
	const holds = 300
	var won atomic.Int64
	for range holds {
		l, err := m.Acquire(t.Context())
		require.NoError(t, err)
		begin := make(chan struct{})
		end := func(release func(context.Context) error) {
			<-begin
			switch err := release(context.Background()); {
			case err == nil:
				won.Add(1)
			default:
				assert.ErrorIs(t, err, redimutex.ErrUnlocked)
			}
		}
		var ends sync.WaitGroup
		for _, release := range []func(context.Context) error{l.Release, l.Release, m.UnlockContext} {
			ends.Go(func() { end(release) })
		}
		close(begin)
		ends.Wait()
		assert.Nil(t, m.Lease())
		assert.ErrorIs(t, l.Err(), redimutex.ErrUnlocked)
	}
	assert.EqualValues(t, holds, won.Load())
	assert.EqualValues(t, holds, client.Stats().Released)
}

func TestReleaseReportsALossOnceAndFreesTheMutex(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	l, err := m.Acquire(t.Context())
	require.NoError(t, err)
	s.Do("DEL", "k")
	err = l.Release(t.Context())
	var lost *redimutex.LostError
	require.ErrorAs(t, err, &lost)
	assert.Equal(t, redimutex.Deleted, lost.Reason)
	assert.ErrorIs(t, l.Err(), redimutex.ErrUnlocked, "it had ended before")
	assert.ErrorIs(t, l.Release(t.Context()), redimutex.ErrUnlocked, "the second time")
	require.NoError(t, m.TryLockContext(t.Context()))
	m.Unlock()
}

func TestReleaseInsideDoEndsItsHoldAndDoReturnsTheErrorOfF(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	failure := errors.New("of f")
	err := m.Do(t.Context(), func(ctx context.Context) error {
		require.NoError(t, redimutex.LeaseFrom(ctx).Release(ctx))
		assert.ErrorIs(t, context.Cause(ctx), redimutex.ErrUnlocked)
		assert.False(t, s.Exists("k"))
		return failure
	})
	assert.Equal(t, failure, err)
}

func TestLeaseFromIsTheHoldOfTheInnermostDo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, s.Pool(), redimutex.WithReentrancy())
	a, b := client.Mutex("a"), client.Mutex("b")
	assert.Nil(t, redimutex.LeaseFrom(t.Context()))
	var kept context.Context
	require.NoError(t, a.Do(t.Context(), func(ctx context.Context) error {
		kept = ctx
		outer := redimutex.LeaseFrom(ctx)
		assert.Same(t, a.Lease(), outer)
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		assert.Same(t, outer, redimutex.LeaseFrom(context.WithoutCancel(derived)))
		return b.TryDo(ctx, func(ctx context.Context) error {
			assert.Same(t, b.Lease(), redimutex.LeaseFrom(ctx))
			return a.Do(ctx, func(ctx context.Context) error {
				assert.Same(t, outer, redimutex.LeaseFrom(ctx), "a Do that runs inside the hold of another one")
				return b.Do(ctx, func(ctx context.Context) error {
					assert.Same(t, b.Lease(), redimutex.LeaseFrom(ctx))
					return nil
				})
			})
		})
	}))
	assert.ErrorIs(t, redimutex.LeaseFrom(kept).Err(), redimutex.ErrUnlocked)
	l, err := a.Acquire(t.Context())
	require.NoError(t, err)
	assert.Nil(t, redimutex.LeaseFrom(l.Context(t.Context())), "a hold without a Do")
	require.NoError(t, l.Release(t.Context()))
}
