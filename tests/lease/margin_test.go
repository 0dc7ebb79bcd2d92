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

func TestAShortExtensionOfALongLeaseIsWorthWhatItGave(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 45 * time.Millisecond, 60 * time.Millisecond} {
		t.Run(d.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, pool := redistest.Virtual(t)
				m := newClient(t, []redimutex.Pool{far(pool)}, redimutex.WithTTL(10*time.Second), redimutex.WithoutRenewal()).Mutex("k")
				m.Lock()
				l, began := m.Lease(), time.Now()
				require.NoError(t, l.Extend(t.Context(), d))
				require.NoError(t, l.Err(), "with %v left", time.Until(l.Until()))
				until := l.Until()
				<-l.Done()
				assert.GreaterOrEqual(t, time.Since(began), d/2)
				assert.False(t, time.Now().After(until), "told in time")
				assert.Error(t, m.UnlockContext(t.Context()))
			})
		})
	}
}

func TestAShortExtensionOfALongLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		m := newClient(t, []redimutex.Pool{far(pool)}, redimutex.WithTTL(10*time.Second)).Mutex("k")
		m.Lock()
		l := m.Lease()
		require.NoError(t, l.Extend(t.Context(), 45*time.Millisecond))
		for range 100 {
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, l.Err())
			require.LessOrEqual(t, server.TTL("k"), 45*time.Millisecond)
		}
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}
