package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func ask(token string, timeout time.Duration) *hold {
	q := request("k")
	q.Token, q.Timeout, q.TTL = token, timeout, 10*time.Second
	return q
}

// A pool that waits asks every checkout for Done.
func waitingPool(t *testing.T, s *redistest.Server) *redis.Pool {
	p := &redis.Pool{MaxIdle: 1, MaxActive: 1, Wait: true, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", s.Addr()) }}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestWaitingForAConnectionEndsWithTheOperation(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := waitingPool(t, s)
	srv := server.New(p)
	defer srv.Close(time.Second)
	for range 3 { // also with what an earlier checkout has left for the next
		require.Equal(t, server.Done, acquire(srv, ask("a", 5*time.Second)).Verdict)
		require.Equal(t, server.Done, release(srv, ask("a", 5*time.Second)).Verdict)
		held := p.Get()
		require.NoError(t, held.Err())
		_, err := held.Do("PING")
		require.NoError(t, err)
		reply := acquire(srv, ask("b", 20*time.Millisecond))
		assert.Equal(t, server.Failed, reply.Verdict)
		assert.ErrorIs(t, reply.Err, context.DeadlineExceeded)
		held.Close()
	}
}

func TestTheContextOfADialEndsWithTheCheckout(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var kept context.Context
	p := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		var cancel context.CancelFunc
		kept, cancel = context.WithCancel(ctx)
		_ = cancel // the process that keeps a context finds it over all the same
		return redis.Dial("tcp", s.Addr())
	}}
	t.Cleanup(func() { p.Close() })
	srv := server.New(p)
	defer srv.Close(time.Second)
	require.Equal(t, server.Done, acquire(srv, ask("a", time.Minute)).Verdict)
	<-kept.Done()
	assert.ErrorIs(t, kept.Err(), context.Canceled)
}
