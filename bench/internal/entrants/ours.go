package entrants

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/redimutex/redimutex"
)

// client is a Client of redimutex, used in one way.
type client struct {
	*redimutex.Client
	pools   []io.Closer
	way     func(*client, string, bool) Pair
	permits int

	shared sync.Map // by key: what all goroutines share that lock the key
}

// ours opens redimutex for one server. It returns nil if this version of the library can't be used in that way.
func ours(way func(*client, string, bool) Pair, opts ...redimutex.Option) func(Env) (Locker, error) {
	if way == nil {
		return nil
	}
	return func(e Env) (Locker, error) {
		pool := e.ourPool(e.Addrs[0])
		return e.client(way, []redimutex.Pool{pool}, []io.Closer{pool}, opts...), nil
	}
}

func overPlain(e Env) (Locker, error) {
	pool := e.plain()
	return e.client(sameCtx, []redimutex.Pool{pool}, []io.Closer{pool}), nil
}

func redlock(e Env) (Locker, error) {
	var pools []redimutex.Pool
	var closers []io.Closer
	for _, addr := range e.Addrs {
		pool := e.ourPool(addr)
		pools, closers = append(pools, pool), append(closers, pool)
	}
	return e.client(sameCtx, pools, closers), nil
}

func (e Env) client(way func(*client, string, bool) Pair, pools []redimutex.Pool, closers []io.Closer, opts ...redimutex.Option) Locker {
	opts = append([]redimutex.Option{redimutex.WithTTL(e.TTL)}, opts...)
	return &client{Client: redimutex.NewClient(pools, opts...), pools: closers, way: way, permits: max(e.Permits, 1)}
}

func (c *client) Pair(key string, writes bool) Pair { return c.way(c, key, writes) }

func (c *client) Close() error {
	err := c.Client.Close()
	for _, p := range c.pools {
		err = errors.Join(err, p.Close())
	}
	return err
}

// five returns the keys for a row that locks five keys.
func five(key string) []string {
	keys := []string{key}
	for i := range 4 {
		keys = append(keys, key+":"+strconv.Itoa(i))
	}
	return keys
}

// inCtx unlocks with the ctx of the call that locked.
func inCtx(m *redimutex.Mutex) Pair {
	var held context.Context
	return Pair{
		func(ctx context.Context) error { held = ctx; return m.LockContext(ctx, 0) },
		func(context.Context) error { return m.UnlockContext(held) },
	}
}

func sameCtx(c *client, key string, _ bool) Pair { return inCtx(c.Mutex(key)) }

func newCtx(c *client, key string, _ bool) Pair {
	p := inCtx(c.Mutex(key))
	var cancel context.CancelFunc
	return Pair{
		func(ctx context.Context) error { ctx, cancel = context.WithCancel(ctx); return p.Lock(ctx) },
		func(ctx context.Context) error { defer cancel(); return p.Unlock(ctx) },
	}
}

func plainLock(c *client, key string, _ bool) Pair {
	m := c.Mutex(key)
	return Pair{
		func(context.Context) error { m.Lock(); return nil },
		func(context.Context) error { m.Unlock(); return nil },
	}
}

// inDo locks and unlocks in Lock.
func inDo(c *client, key string, _ bool) Pair {
	m := c.Mutex(key)
	nothing := func(context.Context) error { return nil }
	return Pair{func(ctx context.Context) error { return m.Do(ctx, nothing) }, nothing}
}
