package server_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// A wrapper is a pool whose connections are something around those of redigo.
type wrapper struct {
	pool *redis.Pool
	wrap func(redis.Conn) redis.Conn
}

func (w wrapper) Get() redis.Conn { return w.wrap(w.pool.Get()) }

func TestConnectionsWithoutTimeoutsWork(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s := open(t, wrapper{r.Pool(), func(c redis.Conn) redis.Conn { return struct{ redis.Conn }{c} }})
	everything(t, s)
	assert.Len(t, r.Keys(), 1, "the fence counter")
}

// everything does all that a Server can, on several keys.
func everything(t *testing.T, s *server.Server) {
	t.Helper()
	var batch []*hold
	for i := range 5 {
		q := request(fmt.Sprint("k", i))
		batch = append(batch, q)
		done(t, acquire(s, q))
	}
	for _, reply := range extend(s, batch) {
		done(t, reply)
	}
	_, err := get(s, "k0", 10*time.Second)
	require.NoError(t, err)
	done(t, release(s, batch[0]))
	for _, q := range batch[1:] {
		releaseLater(s, q)
	}
	plain := request("plain")
	plain.Plain = true
	done(t, acquire(s, plain))
	done(t, release(s, plain))
	fenced := request("fenced")
	fenced.Fence = server.NextFence
	done(t, raise(s, fenced, 1))
	redistest.Wait(t, "the rest is undone", func() bool {
		for _, q := range batch {
			if v, err := get(s, q.Key, 10*time.Second); err != nil || v != nil {
				return false
			}
		}
		return true
	})
}

// A boundConn is like one of a cluster: it serves the slot that it is bound to and no other.
type boundConn struct {
	redis.Conn
	log  *bindings
	slot int
}

type bindings struct {
	mu      sync.Mutex
	bound   []string
	strange []string
}

func (c *boundConn) Bind(keys ...string) error {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	if c.slot >= 0 {
		c.log.strange = append(c.log.strange, "bound twice")
	}
	c.log.bound = append(c.log.bound, keys...)
	c.slot = int(server.Slot(keys[0]))
	return nil
}

func (c *boundConn) check(command string, args []any) {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	if command != "" && c.slot < 0 {
		c.log.strange = append(c.log.strange, command+" before Bind")
	}
	keys := args[:min(len(args), 1)]
	switch command {
	case "CLUSTER":
		return // any node may be asked
	case "EVALSHA", "EVAL":
		keys = args[2 : 2+args[1].(int)]
	}
	for _, key := range keys {
		if k, _ := key.(string); k != "" && int(server.Slot(k)) != c.slot {
			c.log.strange = append(c.log.strange, fmt.Sprintf("%s %q on the node of another slot", command, k))
		}
	}
}

func (c *boundConn) Do(command string, args ...any) (any, error) {
	c.check(command, args)
	return c.Conn.Do(command, args...)
}

func (c *boundConn) DoWithTimeout(d time.Duration, command string, args ...any) (any, error) {
	c.check(command, args)
	return redis.DoWithTimeout(c.Conn, d, command, args...)
}

func (c *boundConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, d)
}

func (c *boundConn) Send(command string, args ...any) error {
	c.check(command, args)
	return c.Conn.Send(command, args...)
}

func TestClusterConnectionsAreBoundToTheNodeOfTheKey(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t) // an embedded one says that it serves all slots
	var log bindings
	s := open(t, wrapper{r.Pool(), func(c redis.Conn) redis.Conn { return &boundConn{c, &log, -1} }})
	everything(t, s)
	log.mu.Lock()
	defer log.mu.Unlock()
	assert.Empty(t, log.strange)
	assert.Contains(t, log.bound, "k3", "the leases of a batch are on different nodes")
}

func TestAConnectionThatCannotBeBoundIsAnError(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s := open(t, wrapper{r.Pool(), func(c redis.Conn) redis.Conn { return unboundConn{c} }})
	failed(t, acquire(s, request("k")))
	failed(t, one(s, request("k")))
	assert.Empty(t, r.Keys())
}

type unboundConn struct{ redis.Conn }

func (unboundConn) Bind(...string) error { return errors.New("no node serves the slot") }

// A contextPool looks at the context that it is given.
type contextPool struct {
	*redis.Pool
	look func(context.Context) error
}

func (p contextPool) GetContext(ctx context.Context) (redis.Conn, error) {
	if err := p.look(ctx); err != nil {
		return nil, err
	}
	return p.Pool.GetContext(ctx)
}

// What one operation left of its context must not leak into the next.
func TestADeadlineBelongsToOneOperation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		var kept []context.Context
		var wait atomic.Bool
		var mu sync.Mutex
		s := open(t, contextPool{pool, func(ctx context.Context) error {
			if wait.Load() {
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				kept = append(kept, ctx)
				return ctx.Err()
			}
			return ctx.Err()
		}})
		q := request("k")
		for range 5 {
			wait.Store(true)
			failed(t, acquire(s, q))
			synctest.Wait()
			wait.Store(false)
			done(t, acquire(s, q))
			done(t, release(s, q))
		}
		mu.Lock()
		defer mu.Unlock()
		for _, ctx := range kept {
			require.Error(t, ctx.Err(), "an ended context came to life again")
		}
	})
}
