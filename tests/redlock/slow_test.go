package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// start starts n servers and a patient Client over them.
func start(t *testing.T, n int, opts ...redimutex.Option) (locktest.Servers, *redimutex.Client) {
	t.Helper()
	servers := locktest.Real(t, n)
	_, pools := servers.Pools()
	return servers, patientClient(t, pools, opts...)
}

// patientClient returns a Client with node timeouts that a busy machine does not reach.
func patientClient(t *testing.T, pools []redimutex.Pool, opts ...redimutex.Option) *redimutex.Client {
	t.Helper()
	return locktest.Client(t, pools, append([]redimutex.Option{redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10 * time.Second)}, opts...)...)
}

// slowBesideDead has one of three servers be dead and another one slow, so that it owes an answer for long enough to be
// suspected, and then calls what needs it. Only then it goes on.
func slowBesideDead(t *testing.T, held bool, call func(m *redimutex.Mutex) error) {
	t.Parallel()
	servers, client := start(t, 3)
	defer servers[1].Resume()
	m, other := client.Mutex("k"), client.Mutex("other")
	for _, m := range []*redimutex.Mutex{m, other} { // the servers are known
		require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
		require.NoError(t, m.UnlockContext(t.Context()))
	}
	for range 3 {
		if held {
			require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
			redistest.Wait(t, "the slow server has the lock too", func() bool { return servers[1].Get("k") == m.Lease().Token() })
		}
		servers[0].Kill()
		servers[1].Pause()
		owed := make(chan error, 1)
		go func() { owed <- other.TryLockContext(t.Context()) }()
		time.Sleep(100 * time.Millisecond) // it can't be seen from outside whom the Client suspects
		result := make(chan error, 1)
		go func() { result <- call(m) }()
		select {
		case err := <-result:
			require.NoError(t, err, "it was decided without the server that could have been the majority's second")
		case <-time.After(80 * time.Millisecond):
			servers[1].Resume()
			require.NoError(t, <-result)
		}
		require.NoError(t, <-owed)
		servers[1].Resume()
		servers[0].Restart()
		for _, m := range []*redimutex.Mutex{m, other} {
			if m.Lease() != nil {
				require.NoError(t, m.UnlockContext(t.Context()))
			}
		}
	}
}

func TestASlowServerIsAskedForTheLockWhenAnotherIsDead(t *testing.T) {
	slowBesideDead(t, false, func(m *redimutex.Mutex) error {
		err := m.TryLockContext(context.Background())
		if err == nil {
			err = m.UnlockContext(context.Background())
		}
		return err
	})
}

func TestASlowServerIsAskedForAnExtensionWhenAnotherIsDead(t *testing.T) {
	slowBesideDead(t, true, func(m *redimutex.Mutex) error { return m.Lease().Extend(context.Background(), 2*time.Minute) })
}

func TestASlowServerIsAskedForTheReleaseWhenAnotherIsDead(t *testing.T) {
	slowBesideDead(t, true, func(m *redimutex.Mutex) error { return m.UnlockContext(context.Background()) })
}
