package redlock_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// All servers are up, but the connections that the pools keep have been cut. Unlock fails on those, and goes on in the
// background over others: the next try waits for that, and does not take our own lock for another holder's.
func TestAReleaseOverBrokenConnectionsDoesNotStandInTheWayOfTheNextTry(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		var proxies []*redistest.Proxy
		var pools []redimutex.Pool
		for range n {
			p := redistest.Real(t).Proxy()
			pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.DialURL(p.URL()) }}
			t.Cleanup(func() { pool.Close() })
			proxies, pools = append(proxies, p), append(pools, pool)
		}
		m := patientClient(t, pools).Mutex("k")
		for range 3 {
			require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
			for _, p := range proxies {
				p.Cut()
				p.Mend()
			}
			if err := m.UnlockContext(t.Context()); err == nil {
				continue // a pool may find out by itself
			}
			assert.NotErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrLocked, "with %d servers", n)
			_ = m.UnlockContext(t.Context())
		}
	}
}
