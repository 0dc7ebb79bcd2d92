package server_test

import (
	"context"
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

func TestAConnectionThatCannotBeBoundIsAnError(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s := open(t, wrapper{r.Pool(), func(c redis.Conn) redis.Conn { return unboundConn{c} }})
	failed(t, acquire(s, request("k")))
	failed(t, one(s, request("k")))
	assert.Empty(t, r.Keys())
}

type unboundConn struct{ redis.Conn }

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
