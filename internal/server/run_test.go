package server_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// Nothing of the command was begun, so nothing of it gives the connection back.
func TestASessionWhoseCtxEndsBetweenTwoCommandsGivesItsConnectionBack(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	punctual, err := redimutex.NewPool("redis://" + r.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { punctual.Close() })
	for _, pool := range []server.Pool{r.Pool(), punctual} {
		s := open(t, pool)
		ctx, cancel := context.WithCancel(t.Context())
		err := s.Run(ctx, time.Minute, "k", func(ses *server.Session) error {
			cancel()
			_, err := ses.Do("GET", "k")
			return err
		})
		require.ErrorIs(t, err, context.Canceled)
		stats := pool.(interface{ Stats() redis.PoolStats }).Stats()
		assert.Equal(t, 1, stats.IdleCount)
		assert.Equal(t, 1, stats.ActiveCount)
	}
}

func TestASessionThatFindsTooManyStuckGivesItsConnectionBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		p := &snare{Pool: pool, open: make(chan struct{})}
		s := open(t, p)
		var stuck sync.WaitGroup
		err := s.Run(t.Context(), 10*time.Millisecond, "k", func(ses *server.Session) error {
			p.get.Store(true)
			for range 16 {
				stuck.Go(func() { _, _ = get(s, "k", time.Millisecond) })
			}
			stuck.Wait()
			_, err := ses.Do("GET", "k")
			return err
		})
		require.ErrorContains(t, err, "too many operations are stuck")
		synctest.Wait()
		assert.Equal(t, pool.Stats().ActiveCount, pool.Stats().IdleCount)
		p.get.Store(false)
		close(p.open)
		time.Sleep(5 * time.Minute)
	})
}
