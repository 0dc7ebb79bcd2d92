package lease_test

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

// kept leaves a lease behind for the next hold with the same options, and returns a Mutex with others.
func kept(t *testing.T, pool redimutex.Pool) (other *redimutex.Mutex) {
	t.Helper()
	c := newClient(t, []redimutex.Pool{pool}, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(2*time.Second))
	m := c.Mutex("k", redimutex.WithLeaseReuse(20*time.Second))
	require.NoError(t, m.LockContext(t.Context(), 0))
	require.NoError(t, m.UnlockContext(t.Context()))
	return c.Mutex("k", redimutex.WithOwner("another holder"))
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

// A Mutex on the key of an RWMutex has another line in its process than the readers.
func TestAMutexGetsWhatItsProcessKeepsForReaders(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string][]redimutex.Option{"polling": nil, "queue": {redimutex.WithQueue()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t)
			c := newClient(t, []redimutex.Pool{s.Pool()}, append(waits, redimutex.WithTTL(time.Hour))...)
			m := c.Mutex("k")
			for _, lock := range []func(ctx context.Context) error{
				func(ctx context.Context) error { return m.LockContext(ctx, 20*time.Second) }, m.TryLockContext,
			} {
				l, err := c.RWMutex("k", redimutex.WithLeaseReuse(20*time.Minute)).RAcquire(t.Context())
				require.NoError(t, err)
				require.NoError(t, l.Release(t.Context()))
				require.True(t, s.Exists("k"), "it is kept")
				require.NoError(t, lock(t.Context()))
				m.Unlock()
			}
		})
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
				c := newClient(t, []redimutex.Pool{pool})
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
