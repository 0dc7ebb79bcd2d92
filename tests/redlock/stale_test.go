package redlock_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// All servers are up, but the connections that the pools keep have been cut, and so is the first that is made anew. Unlock
// fails on those, and goes on in the background over others: the next try waits for that, and does not take our own lock
// for another holder's.
func TestAReleaseOverBrokenConnectionsDoesNotStandInTheWayOfTheNextTry(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		var proxies []*redistest.Proxy
		var refusals []*atomic.Bool
		var pools []redimutex.Pool
		for range n {
			p := redistest.Real(t).Proxy()
			refuse := new(atomic.Bool)
			pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) {
				if refuse.CompareAndSwap(true, false) {
					return nil, errors.New("refused once")
				}
				return redis.DialURL(p.URL())
			}}
			t.Cleanup(func() { pool.Close() })
			proxies, refusals, pools = append(proxies, p), append(refusals, refuse), append(pools, pool)
		}
		m := patientClient(t, pools).Mutex("k")
		for range 3 {
			require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
			for i, p := range proxies {
				p.Cut()
				p.Mend()
				refusals[i].Store(true)
			}
			require.Error(t, m.UnlockContext(t.Context()))
			assert.NotErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrLocked, "with %d servers", n)
			_ = m.UnlockContext(t.Context())
		}
	}
}

// The caller that cut them has done nothing to the locks, and Unlock can do without them.
func TestUnlockOutlivesBrokenConnections(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		var proxies []*redistest.Proxy
		var pools []redimutex.Pool
		for range n {
			p := redistest.Real(t).Proxy()
			proxies, pools = append(proxies, p), append(pools, p.Pool())
		}
		m := patientClient(t, pools).Mutex("k")
		for range 3 {
			require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
			for _, p := range proxies {
				p.Cut()
				p.Mend()
			}
			assert.NoError(t, m.UnlockContext(t.Context()), "with %d servers", n)
		}
	}
}
