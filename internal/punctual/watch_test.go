package punctual_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/punctual"
)

// A caller counts who is registered with it.
type caller struct {
	context.Context
	registered atomic.Int32
}

func (c *caller) AfterFunc(f func()) func() bool {
	c.registered.Add(1)
	stop := context.AfterFunc(c.Context, f)
	return func() bool {
		c.registered.Add(-1)
		return stop()
	}
}

// Value hides the ctx inside, with which package context would register directly.
func (c *caller) Value(any) any { return nil }

func TestACallerThatLivesLongHoldsNoConnectionThatHasAnotherOrIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, (&peer{}).dialer())
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		long := &caller{Context: parent}
		for range 10 {
			made := context.WithValue(long, punctual.Caller, long) // for one operation
			_, err := c.DoContext(made, "PING")
			require.NoError(t, err)
		}
		assert.EqualValues(t, 1, long.registered.Load())
		_, err := c.DoContext(t.Context(), "PING")
		require.NoError(t, err)
		assert.Zero(t, long.registered.Load(), "another caller")
		_, err = c.DoContext(long, "PING")
		require.NoError(t, err)
		c.Close()
		assert.Zero(t, long.registered.Load(), "closed")
	})
}

func TestACancellationBetweenOperationsDoesNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{silentAt: "STOP"}
		c := dial(t, p.dialer(redis.DialReadTimeout(time.Minute)))
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := c.DoContext(ctx, "PING")
			require.NoError(t, err)
			cancel()
			synctest.Wait()
			require.NoError(t, c.Err())
			p.late = time.Second
			_, err = c.Do("PING")
			require.NoError(t, err)
			p.late = 0
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := c.DoContext(ctx, "PING")
		require.NoError(t, err)
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		_, err = c.DoContext(ctx, "STOP")
		require.ErrorIs(t, err, context.Canceled, "while one is under way")
		assert.LessOrEqual(t, time.Since(began), time.Second+grace)
	})
}
