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
