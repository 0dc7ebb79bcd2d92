package failure_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A plain SET carries no deadline. So what a server that hung takes late goes with what was written behind it on the same
// connection, also where no other connection gets through and the pool keeps no deadlines. A machine that is late by a
// tenth of a second may close the connection first.
func TestAPlainTryThatIsExecutedLateIsUndoneOverItsOwnConnection(t *testing.T) {
	t.Parallel()
	redistest.Repeat(t, "an undo that is written in time", func() bool {
		s := redistest.Real(t)
		monitor := s.Monitor()
		var dials atomic.Int32
		pool := &redis.Pool{MaxIdle: 1, Dial: func() (redis.Conn, error) {
			if dials.Add(1) > 1 {
				return nil, errors.New("one connection is all there is")
			}
			return redis.Dial("tcp", s.Addr())
		}}
		t.Cleanup(func() { pool.Close() })
		c := newClient(t, struct{ *redis.Pool }{pool}, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(time.Second))
		warm := c.Mutex("warm")
		warm.Lock()
		warm.Unlock()
		s.Pause()
		_, late := redistest.Overrun(0, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			require.ErrorIs(t, c.Mutex("k").LockContext(ctx, 0), context.DeadlineExceeded)
		})
		s.Resume()
		require.Len(t, monitor.Executed("SET", "k"), 1, "it was executed late")
		if late > 50*time.Millisecond {
			return false
		}
		redistest.Wait(t, "it was undone", func() bool { return !s.Exists("k") })
		return true
	})
}
