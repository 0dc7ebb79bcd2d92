package redlock_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// When Unlock returns, its release may still be on its way to some servers. The next try of the same Client goes to those
// servers too, over other connections. It must not find the Client's own lock there.
func TestOurOwnReleaseNeverStandsInOurWay(t *testing.T) {
	for name, opts := range map[string][]redimutex.Option{"plain": nil, "fencing": {redimutex.WithFencing()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, fronts, client := behindFronts(t, 5, opts...)
			m := client.Mutex("k")
			for range 3 {
				require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
				token := m.Lease().Token()
				redistest.Wait(t, "the lock on all servers", func() bool { return servers.All("k", token) })
				// The release arrives late at two servers. Two of the other three hang right after it.
				var delayed atomic.Int64
				for _, f := range fronts[3:] {
					f.On(func(command []string) redistest.Fate {
						if slices.Contains(command, token) {
							delayed.Add(1)
							return redistest.Fate{Delay: 300 * time.Millisecond}
						}
						return redistest.Fate{}
					})
				}
				require.NoError(t, m.UnlockContext(t.Context()))
				inTime := servers[3].Get("k") == token && servers[4].Get("k") == token
				for _, f := range fronts[:2] {
					f.Hang(redistest.AtCommand)
				}
				err := m.TryLockContext(t.Context())
				for _, f := range fronts {
					f.Lift()
					f.On(nil)
				}
				assert.NoError(t, err)
				assert.Positive(t, delayed.Load())
				if err == nil {
					m.UnlockContext(t.Context()) //nolint:errcheck // two of its servers were cut off
				}
				if inTime {
					return // this has shown it; otherwise the machine was late, or Unlock waits for all
				}
			}
		})
	}
}

// behindFronts starts n servers with a Front each, and a Client over them.
func behindFronts(t *testing.T, n int, opts ...redimutex.Option) (locktest.Servers, []*redistest.Front, *redimutex.Client) {
	t.Helper()
	servers := locktest.Start(t, n)
	fronts, pools := servers.Fronts(t)
	return servers, fronts, patientClient(t, pools, opts...)
}

// All servers are up, but the connections of the pools have been cut, so Unlock goes on over new ones. If the first new
// connection is refused too, Unlock fails, and the release goes on in the background. The next try waits for that release, and
// does not take our own lock for that of another holder.
func TestAReleaseOverBrokenConnectionsDoesNotStandInTheWayOfTheNextTry(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		var proxies []*redistest.Proxy
		refusals := make([]atomic.Int32, n)
		var pools []redimutex.Pool
		for i := range n {
			p := redistest.Start(t).Proxy()
			pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) {
				if refusals[i].Add(-1) >= 0 {
					return nil, errors.New("refused")
				}
				return redis.DialURL(p.URL())
			}}
			t.Cleanup(func() { pool.Close() })
			proxies, pools = append(proxies, p), append(pools, pool)
		}
		m := patientClient(t, pools).Mutex("k")
		for round := range 6 {
			refused := round%2 == 1
			require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
			for i, p := range proxies {
				p.Break()
				refusals[i].Store(0)
				if refused { // the dial of the operation, and that of the pool after it
					refusals[i].Store(2)
				}
			}
			err := m.UnlockContext(t.Context())
			if !refused {
				assert.NoError(t, err, "with %d servers", n)
				continue
			}
			require.Error(t, err)
			assert.NotErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrLocked, "with %d servers", n)
			_ = m.UnlockContext(t.Context())
		}
	}
}

// A majority has released the lock without the server that owes an answer. That server is released when it answers again.
func TestAServerThatWasPassedOverIsReleasedToo(t *testing.T) {
	t.Parallel()
	redistest.Repeat(t, "two servers that always answer in time", func() bool {
		servers := locktest.Start(t, 3)
		slow := redistest.NewBetween(servers[2].Pool())
		client := patientClient(t, []redimutex.Pool{servers[0].Pool(), servers[1].Pool(), slow},
			redimutex.WithTTL(time.Hour), redimutex.WithoutRenewal())
		m := client.Mutex("k")
		require.NoError(t, m.LockContext(t.Context(), time.Minute))
		redistest.Wait(t, "the lock on all servers", func() bool {
			return !slices.ContainsFunc(servers, func(s *redistest.Server) bool { return !s.Exists("k") })
		})
		var asked, extended atomic.Int32
		let := make(chan struct{})
		slow.Set(func(command redistest.Command) (any, error) {
			asked.Add(1)
			<-let
			return command.Run()
		})
		var err error
		redistest.Wait(t, "the slow server is passed over", func() bool {
			err = m.Lease().Extend(t.Context(), time.Hour)
			return err != nil || extended.Add(1) > asked.Load()+1
		})
		if err == nil {
			err = m.UnlockContext(t.Context())
		}
		close(let)
		if errors.Is(err, redimutex.ErrUnavailable) {
			return false
		}
		require.NoError(t, err)
		redistest.Wait(t, "the lock is released everywhere", func() bool { return !servers[2].Exists("k") })
		return true
	})
}
