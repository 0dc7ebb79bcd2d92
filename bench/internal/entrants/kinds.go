//go:build !before

package entrants

import (
	"context"
	"io"

	"github.com/redimutex/redimutex"
)

// multiplexed uses one connection. One is enough for a server that has one thread.
func multiplexed(how func(*client, string, bool) Pair, opts ...redimutex.Option) func(Env) (Locker, error) {
	return func(e Env) (Locker, error) {
		pool := e.ourPool(e.Addrs[0])
		return e.client(how, []redimutex.Pool{pool}, []io.Closer{pool}, append(opts, redimutex.WithMultiplexing(1))...), nil
	}
}

func inRWMutex(c *client, key string, writes bool) Pair {
	shared, _ := c.shared.LoadOrStore(key, c.RWMutex(key))
	m := shared.(*redimutex.RWMutex) //nolint:forcetypeassert // nothing else is stored
	if writes {
		return Pair{func(ctx context.Context) error { return m.LockContext(ctx, 0) }, m.UnlockContext}
	}
	return Pair{func(ctx context.Context) error { return m.RLockContext(ctx, 0) }, m.RUnlockContext}
}

func inSemaphore(c *client, key string, _ bool) Pair {
	s := c.Semaphore(key, c.permits)
	var permit *redimutex.Lease
	return Pair{
		func(ctx context.Context) (err error) { permit, err = s.Acquire(ctx); return err },
		func(ctx context.Context) error { return permit.Release(ctx) },
	}
}

func allOf5(c *client, key string, _ bool) Pair { return inCtx(c.MutexAll(five(key))) }
