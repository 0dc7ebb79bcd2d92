package lease_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A pausing connection stands still, once, when the first part of a long batch has been written.
type pausing struct {
	net.Conn
	armed *atomic.Bool
	pause time.Duration
}

func (p pausing) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	if len(b) >= 4096 && p.armed.CompareAndSwap(true, false) {
		time.Sleep(p.pause)
	}
	return n, err
}

// The renewals of many leases go in one batch, of which the server executes the first while the last are not yet written.
func TestNoLeaseOfABatchIsValidForLongerThanTheServerKeepsIt(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	const (
		ttl    = 6 * time.Second
		pause  = time.Second
		leases = 40
	)
	var armed atomic.Bool
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return pausing{c, &armed, pause}, err
	}
	for name, pool := range map[string]redimutex.Pool{
		"on the caller's goroutine": &redis.Pool{MaxIdle: 9, DialContext: redimutex.Dialer("tcp", s.Addr(), redis.DialContextFunc(dial))},
		"by a worker": &redis.Pool{MaxIdle: 9, DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", s.Addr(), redis.DialContextFunc(dial))
		}},
	} {
		client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(4*time.Second))
		var held []*redimutex.Mutex
		for i := range leases {
			m := client.Mutex(fmt.Sprint(name, " ", i, strings.Repeat(".", 2000))) // so that a few fill the buffer
			require.NoError(t, m.LockContext(t.Context(), time.Minute))
			held = append(held, m)
		}
		before := held[0].Lease().Until()
		armed.Store(true)
		redistest.Wait(t, "a batch that takes long", func() bool {
			return !armed.Load() && held[0].Lease().Until().After(before)
		})
		for _, m := range held {
			until := m.Lease().Until()
			left, ok := s.Do("PTTL", m.Key()).(int64)
			require.True(t, ok)
			assert.LessOrEqual(t, time.Until(until), time.Duration(left)*time.Millisecond, m.Key()[:30])
		}
		require.NoError(t, client.Close())
	}
}
