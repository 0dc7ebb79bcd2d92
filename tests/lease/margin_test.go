package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// far returns a pool for a server that takes a moment to answer, in which timers can go off.
func far(pool *redis.Pool) redimutex.Pool {
	b := redistest.NewBetween(pool)
	b.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
		time.Sleep(time.Millisecond)
		return run()
	})
	return b
}

// Renewals that ask for less than the margin of the long lease come after that margin would begin.
func TestAShortExtensionOfALongLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		m := newClient(t, []redimutex.Pool{far(pool)}, redimutex.WithTTL(10*time.Second)).Mutex("k")
		m.Lock()
		l := m.Lease()
		require.NoError(t, l.Extend(t.Context(), 45*time.Millisecond))
		time.Sleep(10 * time.Second)
		for range 100 {
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, l.Err())
			require.LessOrEqual(t, server.TTL("k"), 45*time.Millisecond)
		}
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}
