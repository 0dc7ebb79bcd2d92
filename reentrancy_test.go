package redimutex_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func reentrant(t testing.TB, s *redistest.Server, opts ...redimutex.Option) *redimutex.Client {
	t.Helper()
	return newClient(t, s.Pool(), append(opts, redimutex.WithReentrancy())...)
}

func TestNestedDoRunsInsideTheSameHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := reentrant(t, s)
	m := client.Mutex("k")
	depth := 0
	var nest func(ctx context.Context, m *redimutex.Mutex) error
	nest = func(ctx context.Context, m *redimutex.Mutex) error {
		if depth++; depth > 5 {
			return errors.New("from the innermost")
		}
		token := s.Get("k")
		require.NotEmpty(t, token)
		do := []func(context.Context, func(context.Context) error) error{m.Do, m.TryDo, client.Mutex("k").Do}[depth%3]
		err := do(ctx, func(inner context.Context) error {
			assert.Equal(t, token, s.Get("k"))
			return nest(inner, m)
		})
		assert.Equal(t, token, s.Get("k"), "only the outermost releases")
		assert.NoError(t, ctx.Err())
		return err
	}
	err := m.Do(t.Context(), func(ctx context.Context) error { return nest(ctx, m) })
	require.EqualError(t, err, "from the innermost")
	assert.False(t, s.Exists("k"))
	assert.Nil(t, m.Lease())
	assert.EqualValues(t, 1, client.Stats().Acquired)
	assert.EqualValues(t, 1, client.Stats().Released)
	require.NoError(t, m.TryDo(t.Context(), func(ctx context.Context) error {
		return m.TryDo(ctx, func(context.Context) error { return nil })
	}))
	assert.False(t, s.Exists("k"))
}

func TestOutermostReleasesWhenAllInsideHaveReturned(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := reentrant(t, s).Mutex("k")
	inside, all, leave, outer := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var group sync.WaitGroup
	go func() {
		outer <- m.Do(t.Context(), func(ctx context.Context) error {
			for range 3 {
				group.Go(func() {
					assert.NoError(t, m.Do(ctx, func(ctx context.Context) error {
						inside <- struct{}{}
						<-leave
						assert.NoError(t, ctx.Err())
						assert.True(t, s.Exists("k"))
						return m.Do(ctx, func(context.Context) error { return nil }) // also while the outermost Do waits
					}))
				})
			}
			for range 3 {
				<-inside // all three at once: calls with the ctx of the hold do not exclude each other
			}
			close(all)
			return nil // the three are still at work
		})
	}()
	<-all
	for range 3 {
		// If the outermost Do did not wait, it would have returned during these round trips.
		for range 20 {
			assert.True(t, s.Exists("k"))
		}
		assert.Empty(t, outer)
		leave <- struct{}{}
	}
	require.NoError(t, <-outer)
	group.Wait()
	assert.False(t, s.Exists("k"))
}

func TestContextOfAnotherCallIsOutside(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := reentrant(t, s)
	m := client.Mutex("k")
	var mu sync.Mutex
	inside, most := 0, 0
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			assert.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
				mu.Lock()
				inside++
				most = max(most, inside)
				mu.Unlock()
				err := m.Do(ctx, func(context.Context) error { return nil })
				mu.Lock()
				inside--
				mu.Unlock()
				return err
			}))
		})
	}
	group.Wait()
	assert.Equal(t, 1, most)

	require.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
		never := func(context.Context) error { t.Error("two holders"); return nil }
		assert.ErrorIs(t, m.TryDo(t.Context(), never), redimutex.ErrLocked, "the ctx from outside")
		assert.ErrorIs(t, client.Mutex("k").TryDo(context.Background(), never), redimutex.ErrLocked)
		assert.ErrorContains(t, m.TryLockContext(ctx), "nested", "only Do and TryDo nest")
		assert.ErrorIs(t, reentrant(t, s).Mutex("k").TryDo(ctx, never), redimutex.ErrLocked, "another Client")
		return client.Mutex("another key").Do(ctx, func(context.Context) error {
			assert.True(t, s.Exists("another key"), "another key is another lock")
			return nil
		})
	}))
}

// context.WithoutCancel keeps the values of a ctx but not the end of the hold. Such a ctx must not enter the hold either.
func TestLostLeaseCancelsTheNestedTooAndIsNotEntered(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := reentrant(t, s, redimutex.WithTTL(300*time.Millisecond)).Mutex("k")
	never := func(context.Context) error { t.Error("entered a hold that was lost"); return nil }
	err := m.Do(t.Context(), func(ctx context.Context) error {
		return m.Do(ctx, func(inner context.Context) error {
			s.Do("DEL", "k")
			<-inner.Done()
			assert.ErrorIs(t, context.Cause(inner), redimutex.ErrLost)
			assert.ErrorIs(t, m.Do(context.WithoutCancel(inner), never), redimutex.ErrLost)
			return m.Do(inner, never)
		})
	})
	require.ErrorIs(t, err, redimutex.ErrLost)
	assert.False(t, s.Exists("k"), "nothing is locked again with a ctx that has ended")
}

func TestPanicInsideReleasesOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := reentrant(t, s).Mutex("k")
	assert.EqualError(t, panicOf(func() {
		_ = m.Do(t.Context(), func(ctx context.Context) error {
			return m.Do(ctx, func(context.Context) error { panic("inside") })
		})
	}), "inside")
	assert.False(t, s.Exists("k"))
	require.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
		assert.EqualError(t, panicOf(func() {
			_ = m.Do(ctx, func(context.Context) error { panic("caught inside") })
		}), "caught inside")
		assert.True(t, s.Exists("k"), "the outer one still holds")
		return nil
	}))
	assert.False(t, s.Exists("k"))
}

// A ctx that is kept for longer than its hold counts as outside again.
func TestContextOfAHoldThatIsOverLocksNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := reentrant(t, s).Mutex("k")
	var kept context.Context
	require.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
		kept = ctx
		return nil
	}))
	err := m.Do(kept, func(context.Context) error { t.Error("entered a hold that is over"); return nil })
	require.ErrorIs(t, err, redimutex.ErrUnlocked)
	require.NoError(t, m.Do(context.WithoutCancel(kept), func(ctx context.Context) error {
		assert.True(t, s.Exists("k"), "it is a hold of its own")
		return nil
	}))
	assert.False(t, s.Exists("k"))
}

// A permit keeps no other holder out, so nothing runs inside it, not even with WithReentrancy.
func TestNothingRunsInsideAPermitOfTheSameKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), patient)
	sem, m := c.Semaphore("k", 2), c.Mutex("k", redimutex.WithReentrancy())
	rw, all := c.RWMutex("k", redimutex.WithReentrancy()), c.MutexAll([]string{"k"}, redimutex.WithReentrancy())
	ran := func(context.Context) error { return assert.AnError }
	require.NoError(t, sem.Do(t.Context(), func(ctx context.Context) error {
		for _, err := range []error{m.Do(ctx, ran), m.TryDo(ctx, ran), all.Do(ctx, ran), rw.Do(ctx, ran), rw.RDo(ctx, ran), m.LockContext(ctx, 0)} {
			assert.ErrorContains(t, err, "a lock of another kind")
		}
		return nil
	}))
	require.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
		assert.ErrorContains(t, sem.Do(ctx, ran), "a lock of another kind")
		return nil
	}))
	assert.Empty(t, s.Keys())
}
