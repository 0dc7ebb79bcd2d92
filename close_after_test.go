package redimutex_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A late is a connection that counts the writes to it after a Close.
type late struct {
	net.Conn
	closed *atomic.Bool
	wrote  *atomic.Int64
}

func (c *late) Write(b []byte) (int, error) {
	if c.closed.Load() {
		c.wrote.Add(1)
	}
	return c.Conn.Write(b)
}

// When a majority has released, the other releases go on until their own bound. Close waits for that.
func TestAReleaseThatAMajorityHasAnsweredSendsNothingAfterClose(t *testing.T) {
	t.Parallel()
	const node = time.Second
	for name, opts := range map[string][]redimutex.Option{
		"connections of the pool": nil, "shared connections": {redimutex.WithMultiplexing(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := locktest.Start(t, 3)
			var closed atomic.Bool
			var wrote atomic.Int64
			front := redistest.NewFront(t, all[0])
			pools := []redimutex.Pool{
				front.Pool(redis.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, network, addr)
					return &late{c, &closed, &wrote}, err
				})), all[1].Pool(), all[2].Pool(),
			}
			client := redimutex.NewClient(pools, append(opts, redimutex.WithNodeTimeout(node), redimutex.WithTTL(time.Hour))...)
			m := client.Mutex("k")
			l, err := m.Acquire(t.Context())
			require.NoError(t, err)
			redistest.Wait(t, "the first server has the lock", func() bool { return all[0].Get("k") == l.Token() })
			front.Hang(redistest.AtReply)
			require.NoError(t, l.Release(t.Context()))
			began := time.Now()
			require.NoError(t, client.Close())
			closed.Store(true)
			assert.LessOrEqual(t, time.Since(began), 2*node+500*time.Millisecond)
			assert.Never(t, func() bool { return wrote.Load() > 0 }, node, 10*time.Millisecond)
		})
	}
}
