package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// What is left to expire must not be revived by an extension that was given up.
func TestLateExtensionDoesNotProlongWhatUnlockHasLeftToExpire(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	pool := redistest.NewBetween(s.Pool())
	c := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(2*time.Second))
	defer c.Close()
	m := c.Mutex("k", redimutex.WithMinHold(time.Second))
	require.NoError(t, m.LockContext(t.Context(), 0))
	l := m.Lease()
	require.NoError(t, l.Extend(t.Context(), time.Minute)) // the script is known now
	caught, release, executed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	pool.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
		pool.Set(nil)
		close(caught)
		<-release
		defer close(executed)
		return run()
	})
	ctx, cancel := context.WithCancel(t.Context())
	extended := make(chan error, 1)
	go func() { extended <- l.Extend(ctx, time.Minute) }()
	<-caught
	cancel()
	require.ErrorIs(t, <-extended, context.Canceled)
	require.NoError(t, m.UnlockContext(t.Context()))
	close(release)
	<-executed
	redistest.Wait(t, "the lock has expired", func() bool { return len(s.Keys()) == 0 })
}
