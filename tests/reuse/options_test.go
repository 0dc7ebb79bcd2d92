package reuse_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// lateness is by how much a call may overrun its bound in virtual time, where all else takes none.
const lateness = 50 * time.Millisecond

// nodeTimeout is that of kept.
const nodeTimeout = 2 * time.Second

// kept leaves a lease behind for the next hold with the same options, and returns a Mutex with others.
func kept(t *testing.T, pool redimutex.Pool) (other *redimutex.Mutex) {
	t.Helper()
	c := newClient(t, pool, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(nodeTimeout))
	m := c.Mutex("k", redimutex.WithLeaseReuse(20*time.Second))
	require.NoError(t, m.LockContext(t.Context(), 0))
	require.NoError(t, m.UnlockContext(t.Context()))
	return c.Mutex("k", redimutex.WithOwner("another holder"))
}

// hang has pool answer nothing more until the function is called that it returns.
func hang(pool *redistest.Between) (resume func()) {
	answer := make(chan struct{})
	pool.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
		<-answer
		return run()
	})
	return func() {
		pool.Set(nil)
		close(answer)
	}
}

func TestWhatIsKeptForOtherOptionsIsNotGivenBackOnTheNextCallersTime(t *testing.T) {
	t.Parallel()
	for name, verb := range map[string]struct {
		bound time.Duration
		lock  func(*redimutex.Mutex) error
	}{
		"LockContext": {100 * time.Millisecond, func(m *redimutex.Mutex) error {
			return m.LockContext(context.Background(), 100*time.Millisecond)
		}},
		"TryLockContext": {nodeTimeout, func(m *redimutex.Mutex) error { return m.TryLockContext(context.Background()) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, real := redistest.Virtual(t)
				pool := redistest.NewBetween(real)
				other := kept(t, pool)
				resume := hang(pool)
				began := time.Now()
				assert.Error(t, verb.lock(other), "the server does not answer")
				assert.LessOrEqual(t, time.Since(began), verb.bound+lateness)
				resume()
			})
		})
	}
}

func TestWhatIsKeptForOtherOptionsIsNoOtherHoldersLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := s.Pool()
	for range 20 {
		other := kept(t, pool)
		require.NoError(t, other.TryLockContext(t.Context()), "no process holds it")
		require.NoError(t, other.UnlockContext(t.Context()))
	}
}

func TestOptionsAreComparedByTheirValues(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]func() []redimutex.Option{
		"reuse": func() []redimutex.Option { return []redimutex.Option{redimutex.WithLeaseReuse(2 * time.Second)} },
		"many": func() []redimutex.Option {
			return []redimutex.Option{
				redimutex.WithLeaseReuse(2 * time.Second), redimutex.WithTTL(8 * time.Second), redimutex.WithOwner("me"),
				redimutex.WithQueue(), redimutex.WithNodeTimeout(time.Second), redimutex.WithMaxHold(time.Minute),
				redimutex.WithPollInterval(10 * time.Millisecond),
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, real := redistest.Virtual(t)
				pool := redistest.NewBetween(real)
				var commands atomic.Int32
				pool.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
					commands.Add(1)
					return run()
				})
				c := newClient(t, pool)
				hold := func() string {
					m := c.Mutex("k", opts()...)
					require.NoError(t, m.LockContext(t.Context(), 0))
					defer m.Unlock()
					return m.Lease().Token()
				}
				token, before := hold(), commands.Load()
				for range 100 {
					require.Equal(t, token, hold(), "a Mutex that is made for each call has the same options each time")
				}
				assert.Equal(t, before, commands.Load(), "the server has nothing to say about that")
			})
		})
	}
}

func TestWhatIsKeptForOtherOptionsIsNotGivenBackOnTheNextCallersTimeByAServerThatIsStopped(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	pool, err := redimutex.NewPool(s.URL())
	require.NoError(t, err)
	t.Cleanup(func() { pool.Close() })
	redistest.Repeat(t, "calls on a machine that is not late", func() bool {
		s.Do("DEL", "k")
		other := kept(t, pool)
		s.Pause()
		defer s.Resume()
		var err error
		over, late := redistest.Overrun(100*time.Millisecond, func() { err = other.LockContext(t.Context(), 100*time.Millisecond) })
		if late > 100*time.Millisecond {
			return false
		}
		assert.Error(t, err, "the server does not answer")
		assert.Less(t, over, 300*time.Millisecond+2*late)
		return true
	})
}
