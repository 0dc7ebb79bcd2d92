package failure_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// persistent keeps what a server has over a restart.
var persistent = []string{"--appendonly", "yes", "--appendfsync", "always"}

// All sixteen idle connections of the pool are broken, and a renewal or a try meets one of them.
func TestARestartOfTheServerCostsNoLeaseAndFailsNoTry(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, persistent...)
	for name := range pools(t, s) {
		for how, opts := range map[string][]redimutex.Option{
			"": nil, "fencing": {redimutex.WithFencing()}, "queue": {redimutex.WithQueue()}, "multiplexed": {redimutex.WithMultiplexing(2)},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				pool := pools(t, s)[name]
				client := locktest.Client(t, []redimutex.Pool{pool}, append(opts, redimutex.WithTTL(3*time.Second), redimutex.WithNodeTimeout(time.Second),
					redimutex.WithPollInterval(2500*time.Millisecond))...)
				held, warm := client.Mutex("held "+how), client.Mutex("warm")
				require.NoError(t, held.LockContext(t.Context(), 10*time.Second))
				warm.Lock()
				warm.Unlock()
				lease := held.Lease()
				idle(t, pool, 16)
				restart(t, s)
				for i := range 8 {
					m := client.Mutex(fmt.Sprint("free:", i))
					if i%2 == 0 {
						require.NoError(t, m.TryLockContext(t.Context()), i)
					} else { // its first try is a plain SET, and there is no time for the next poll
						require.NoError(t, m.LockContext(t.Context(), 2*time.Second), i)
					}
					require.NoError(t, m.UnlockContext(t.Context()), i)
				}
				require.NoError(t, lease.Extend(t.Context(), 3*time.Second))
				idleButBroken := pool.IdleCount()
				renewed := client.Stats().Renewed
				redistest.Wait(t, "a renewal", func() bool { return client.Stats().Renewed > renewed || lease.Err() != nil })
				require.NoError(t, lease.Err(), "with %d idle connections", idleButBroken)
				require.NoError(t, held.UnlockContext(t.Context()))
				redistest.Wait(t, "nothing is left", func() bool {
					return !s.Exists("held "+how) && !s.Exists("free:0") && !s.Exists("warm")
				})
			})
		}
	}
}

// Each of the idle connections would cost a node timeout.
func TestAFirewallThatForgetsIdleConnectionsCostsNoLease(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	const n = 8
	for name := range pools(t, s) {
		for _, how := range []string{"", "with a limit", "multiplexed"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				var wall firewall
				pool := pools(t, s, redis.DialNetDial(wall.dial))[name]
				opts := []redimutex.Option{redimutex.WithTTL(4 * time.Second), redimutex.WithNodeTimeout(1300 * time.Millisecond)} // two in a row are too many
				all := n
				switch how {
				case "with a limit":
					pool.MaxActive = n
				case "multiplexed":
					opts, all = append(opts, redimutex.WithMultiplexing(n)), 2*n
				}
				client := locktest.Client(t, []redimutex.Pool{pool}, opts...)
				m, other := client.Mutex("k "+t.Name()), client.Mutex("other "+t.Name())
				idle(t, pool, n)
				redistest.Wait(t, "all connections are there", func() bool {
					require.NoError(t, other.LockContext(t.Context(), 10*time.Second))
					require.NoError(t, other.UnlockContext(t.Context()))
					return wall.passed() >= all
				})
				require.NoError(t, m.LockContext(t.Context(), 10*time.Second))
				lease := m.Lease()
				wall.forget()
				redistest.Wait(t, "two renewals", func() bool { return client.Stats().Renewed >= 2 || lease.Err() != nil })
				require.NoError(t, lease.Err())
				if other.TryLockContext(t.Context()) != nil {
					require.NoError(t, other.TryLockContext(t.Context()), "the second try dials")
				}
			})
		}
	}
}

// A pool of another make has to be asked again and again, until it has no broken connection left.
func TestARestartFailsNoTryOverAPoolThatCannotDial(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, persistent...)
	inner := pools(t, s)["plain"]
	client := locktest.Client(t, []redimutex.Pool{struct{ redimutex.Pool }{inner}}, redimutex.WithNodeTimeout(2*time.Second))
	m := client.Mutex("k")
	m.Lock()
	idle(t, inner, 16)
	restart(t, s)
	require.NoError(t, m.UnlockContext(t.Context()))
	s.Pause()
	require.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrUnavailable, "that it was silent before makes no difference")
	s.Resume()
	idle(t, inner, 16)
	restart(t, s)
	require.NoError(t, m.TryLockContext(t.Context()))
	require.NoError(t, m.UnlockContext(t.Context()))
}
