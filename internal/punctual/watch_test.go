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
	began, ended atomic.Int32
}

func (c *caller) AfterFunc(f func()) func() bool {
	c.began.Add(1)
	stop := context.AfterFunc(c.Context, f)
	return func() bool {
		c.ended.Add(1)
		return stop()
	}
}

// Value hides the ctx inside, with which package context would register directly.
func (c *caller) Value(any) any { return nil }

// An operation is a ctx that is made for one command.
type operation struct {
	until
	caller *caller
	over   atomic.Bool
}

func (o *operation) Value(key any) any {
	if o.over.Load() {
		panic("asked after the operation was over")
	}
	if key == punctual.Caller {
		return o.caller
	}
	return o.until.Value(key)
}

func TestAConnectionRegistersOnceWithACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{silentAt: "STOP"}
		c := dial(t, p.dialer())
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		ctx := &caller{Context: parent}
		for range 10 {
			o := &operation{until: until{ctx, time.Now().Add(time.Second)}, caller: ctx}
			_, err := c.DoContext(o, "PING")
			require.NoError(t, err)
			o.over.Store(true)
			_, err = c.DoContext(ctx, "PING")
			require.NoError(t, err)
		}
		assert.EqualValues(t, 1, ctx.began.Load())
		assert.Zero(t, ctx.ended.Load())
		_, err := c.DoContext(t.Context(), "PING")
		require.NoError(t, err)
		assert.EqualValues(t, 1, ctx.ended.Load(), "another caller")
		_, err = c.DoContext(ctx, "PING")
		require.NoError(t, err)
		assert.EqualValues(t, 2, ctx.began.Load())
		c.Close()
		assert.EqualValues(t, 2, ctx.ended.Load(), "closed")
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
