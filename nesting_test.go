package redimutex_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// waits returns the methods that would wait for m with ctx.
func waits(m *redimutex.Mutex) map[string]func(ctx context.Context) error {
	never := func(context.Context) error { return assert.AnError }
	return map[string]func(ctx context.Context) error{
		"LockContext":              func(ctx context.Context) error { return m.LockContext(ctx, 0) },
		"LockContext with timeout": func(ctx context.Context) error { return m.LockContext(ctx, time.Hour) },
		"TryLockContext":           m.TryLockContext,
		"Acquire":                  func(ctx context.Context) error { _, err := m.Acquire(ctx); return err },
		"TryAcquire":               func(ctx context.Context) error { _, err := m.TryAcquire(ctx); return err },
		"Do":                       func(ctx context.Context) error { return m.Do(ctx, never) },
		"TryDo":                    func(ctx context.Context) error { return m.TryDo(ctx, never) },
	}
}

func TestWithoutReentrancyANestedCallIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, s.Pool(), redimutex.WithTTL(time.Minute))
	m := client.Mutex("k")
	for name, outer := range map[string]func(context.Context, func(context.Context) error) error{"Do": m.Do, "TryDo": m.TryDo} {
		require.NoError(t, outer(t.Context(), func(ctx context.Context) error {
			type mine struct{}
			derived := context.WithValue(ctx, mine{}, true)
			detached := context.WithoutCancel(ctx)
			for _, asked := range []*redimutex.Mutex{m, client.Mutex("k", redimutex.WithTTL(time.Second))} {
				for verb, call := range waits(asked) {
					for _, ctx := range []context.Context{ctx, derived, detached} {
						err := call(ctx)
						assert.ErrorIs(t, err, redimutex.ErrLocked, "%s in %s", verb, name)
						assert.NotErrorIs(t, err, context.DeadlineExceeded)
						assert.ErrorContains(t, err, "nested")
						var locked *redimutex.LockedError
						assert.True(t, errors.As(err, &locked) && locked.Nested && locked.Key == "k", "a program can tell it")
						assert.ErrorContains(t, err, "WithReentrancy", "the remedy")
						assert.NotErrorIs(t, err, assert.AnError, "f ran")
					}
				}
			}
			assert.NoError(t, ctx.Err(), "the outer hold goes on")
			return nil
		}))
	}
	assert.False(t, s.Exists("k"))
	require.NoError(t, m.TryLockContext(t.Context()))
	m.Unlock()
}

func TestANestedCallIsFoundThroughADoOfAnotherKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, s.Pool(), redimutex.WithTTL(time.Minute))
	m := client.Mutex("k")
	require.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
		return client.Mutex("another").Do(ctx, func(ctx context.Context) error {
			for verb, call := range waits(m) {
				assert.ErrorContains(t, call(ctx), "nested", verb)
			}
			return nil
		})
	}))
}

func TestACallAfterTheHoldOfItsContextIsNotNested(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", redimutex.WithTTL(time.Minute))
	var kept context.Context
	require.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
		kept = context.WithoutCancel(ctx)
		m.Unlock()
		for verb, call := range waits(m) {
			if err := call(kept); err != nil {
				assert.ErrorIs(t, err, assert.AnError, verb)
			} else {
				m.Unlock()
			}
		}
		return nil
	}))
	require.NoError(t, m.TryLockContext(kept))
	m.Unlock()
}

func TestACancelledNestedCallReturnsTheCause(t *testing.T) {
	t.Parallel()
	m := newMutex(t, redistest.Start(t).Pool(), "k")
	require.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(assert.AnError)
		err := m.LockContext(ctx, 0)
		assert.ErrorIs(t, err, assert.AnError)
		assert.NotErrorIs(t, err, redimutex.ErrLocked)
		return nil
	}))
}

func TestANestedCallIsCountedAndTraced(t *testing.T) {
	t.Parallel()
	var gaveUp []redimutex.Event
	client := newClient(t, redistest.Start(t).Pool(), redimutex.WithTrace(&redimutex.Trace{
		GaveUp: func(e redimutex.Event) { gaveUp = append(gaveUp, e) },
	}))
	m := client.Mutex("k")
	require.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
		require.Error(t, m.LockContext(ctx, 0))
		return nil
	}))
	assert.EqualValues(t, 1, client.Stats().Failed)
	require.Len(t, gaveUp, 1)
	assert.ErrorIs(t, gaveUp[0].Err, redimutex.ErrLocked)
}

// The hold is that of the outer Do, whatever the options of the Mutex that holds it.
func TestReentrancyIsAnOptionOfTheMutexThatIsCalled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, s.Pool())
	plain, reentrant := client.Mutex("k"), client.Mutex("k", redimutex.WithReentrancy())
	require.NoError(t, plain.Do(t.Context(), func(ctx context.Context) error {
		token := s.Get("k")
		return reentrant.Do(ctx, func(ctx context.Context) error {
			assert.Equal(t, token, s.Get("k"))
			assert.ErrorContains(t, plain.TryDo(ctx, func(context.Context) error { return nil }), "nested")
			return nil
		})
	}))
	assert.False(t, s.Exists("k"))
}

// Two functions may each have a lock of their own, made with the same pool.
func TestNestingIsFoundAcrossClientsOfTheSamePool(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := s.Pool()
	inside := func(ctx context.Context) error { return nil }
	outer := newMutex(t, pool, "k")
	require.NoError(t, outer.Do(t.Context(), func(ctx context.Context) error {
		assert.ErrorContains(t, newMutex(t, pool, "k").Do(ctx, inside), "nested")
		assert.NoError(t, newMutex(t, pool, "k", redimutex.WithReentrancy()).Do(ctx, inside))
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, newMutex(t, s.Pool(), "k").Do(ctx, inside), context.DeadlineExceeded, "over another pool it may be another server's")
		return nil
	}))
}
