package lease_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A narrowPool is slow: before the first command of a pipeline arrives, it takes the time each for every command.
type narrowPool struct {
	*redistest.Between // sends a command when its reply is wanted: the virtual connection holds no more than one
	each               *atomic.Int64
}

func (p narrowPool) Get() redis.Conn { return &narrowConn{Conn: p.Between.Get(), each: p.each} }

func (p narrowPool) GetContext(ctx context.Context) (redis.Conn, error) {
	c, err := p.Between.GetContext(ctx)
	return &narrowConn{Conn: c, each: p.each}, err
}

type narrowConn struct {
	redis.Conn
	each *atomic.Int64
	sent int64
}

func (c *narrowConn) Send(command string, args ...any) error {
	c.sent++
	return c.Conn.Send(command, args...)
}

func (c *narrowConn) Do(command string, args ...any) (any, error) {
	time.Sleep(time.Duration(c.sent * c.each.Load()))
	c.sent = 0
	return c.Conn.Do(command, args...)
}

// All leases together need longer than the node timeout, but a thousand of them do not.
func TestManyLeasesAreRenewedInPartsThatAreNotLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		narrow := narrowPool{redistest.NewBetween(pool), new(atomic.Int64)}
		client := newClient(t, narrow, redimutex.WithTTL(12*time.Second), redimutex.WithNodeTimeout(1100*time.Millisecond))
		leases := make([]*redimutex.Lease, 1500)
		for i := range leases {
			var err error
			leases[i], err = client.Mutex(strconv.Itoa(i)).Acquire(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, leases[0].Extend(t.Context(), 12*time.Second)) // now the server knows the script
		narrow.each.Store(int64(time.Millisecond))
		time.Sleep(13 * time.Second)
		for _, l := range leases {
			require.NoError(t, l.Err())
		}
		narrow.each.Store(0) // for Close
	})
}
