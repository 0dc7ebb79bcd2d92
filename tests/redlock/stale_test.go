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

// All servers are up, but the connections that the pools keep have been cut: Unlock goes on over others. If the first that
// is made anew is refused too, Unlock fails, and the release goes on in the background: the next try waits for that, and does
// not take our own lock for another holder's.
func TestAReleaseOverBrokenConnectionsDoesNotStandInTheWayOfTheNextTry(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		var proxies []*redistest.Proxy
		refusals := make([]atomic.Bool, n)
		var pools []redimutex.Pool
		for i := range n {
			p := redistest.Real(t).Proxy()
			pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) {
				if refusals[i].CompareAndSwap(true, false) {
					return nil, errors.New("refused once")
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
				p.Cut()
				p.Mend()
				refusals[i].Store(refused)
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
