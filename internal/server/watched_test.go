package server_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/punctual"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// A connection goes on watching the ctx of its last operation until it has another. What it watches has to be
// the caller's: the ctx of an operation belongs to another caller by then. The race detector sees it if not.
func TestAConnectionThatWatchesItsLastOperationDoesNotDisturbTheNext(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	d := punctual.NewDialer("tcp", r.Addr())
	pool := &redis.Pool{MaxIdle: 10, DialContext: d.DialContext}
	t.Cleanup(func() { pool.Close() })
	s := server.New(pool)
	defer s.Close(time.Second)
	var all sync.WaitGroup
	for _, key := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				c := request(key).claim(s)
				require.Equal(t, server.Done, c.Try(ctx, server.Try{}).Verdict)
				require.Equal(t, server.Done, c.Release(ctx, time.Now(), time.Time{}).Verdict)
				cancel()
			}
		})
	}
	all.Wait()
}
