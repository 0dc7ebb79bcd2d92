package failure_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A gauge counts the connections that are open, the most that ever were, and the writes to them.
type gauge struct{ open, most, writes atomic.Int64 }

type gauged struct {
	net.Conn
	gauge *gauge
	close func()
}

func (c gauged) Close() error {
	c.close()
	return c.Conn.Close()
}

func (c gauged) Write(b []byte) (int, error) {
	c.gauge.writes.Add(1)
	return c.Conn.Write(b)
}

func (g *gauge) dial(network, addr string) (net.Conn, error) {
	c, err := net.Dial(network, addr)
	if err != nil {
		return nil, err
	}
	for n := g.open.Add(1); n > g.most.Load(); {
		g.most.Store(n)
	}
	return gauged{c, g, sync.OnceFunc(func() { g.open.Add(-1) })}, nil
}

// The holders use all connections for their work under the locks. Their leases have to outlast that work.
func TestHoldersThatHaveAllConnectionsOfThePoolKeepTheirLeases(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name := range pools(t, s) {
		for _, wait := range []bool{true, false} {
			t.Run(fmt.Sprint(name, "/wait ", wait), func(t *testing.T) {
				t.Parallel()
				const n = 3
				pool := pools(t, s)[name]
				pool.MaxActive, pool.Wait = n, wait
				client := newClient(t, pool, redimutex.WithTTL(10*time.Second), redimutex.WithNodeTimeout(2*time.Second))
				var leases []*redimutex.Lease
				for i := range n {
					m := client.Mutex(fmt.Sprint(t.Name(), i))
					require.NoError(t, m.LockContext(t.Context(), 0))
					leases = append(leases, m.Lease())
				}
				for range n {
					c := pool.Get()
					defer c.Close()
					require.NoError(t, c.Err())
				}
				redistest.Wait(t, "two renewals of each, or a loss", func() bool {
					stats := client.Stats()
					return stats.Renewed >= 2*n || stats.LostExpired > 0
				})
				for _, l := range leases {
					assert.NoError(t, l.Err())
				}
			})
		}
	}
}

// The connections of the pool get no answers, so each operation might dial one of its own.
func TestOperationsDialNoMoreBesideThePoolThanItMayHave(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "can't be paused")
	for name := range pools(t, redistest.Start(t)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit = 8
			var g gauge
			s := redistest.Start(t)
			pool := pools(t, s, redis.DialNetDial(g.dial))[name]
			pool.MaxActive, pool.MaxIdle, pool.Wait = limit, limit, true
			client := newClient(t, pool, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(300*time.Millisecond))
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for i := range 20 * limit {
				m := client.Mutex(fmt.Sprint("k", i))
				all.Go(func() {
					for ctx.Err() == nil {
						if m.LockContext(ctx, 0) == nil {
							_ = m.UnlockContext(context.Background()) // the release may go on in the background
						}
					}
				})
			}
			for range 3 {
				acquired := client.Stats().Acquired
				redistest.Wait(t, "it goes on", func() bool { return client.Stats().Acquired > acquired+20*limit })
				s.Pause()
				failed := client.Stats().Errors[0]
				redistest.Wait(t, "many are in vain", func() bool { return client.Stats().Errors[0] > failed+20*limit })
				s.Resume()
			}
			cancel()
			all.Wait()
			assert.Less(t, g.most.Load(), int64(3*limit), "one that was given up may be open a little longer")
			assert.Greater(t, g.most.Load(), int64(limit), "none was dialled beside the pool")
		})
	}
}

// The pool is full only because the extensions are so many. They need not wait for long.
func TestManyExtensionsDialFewConnections(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name := range pools(t, s) {
		const limit = 8
		var g gauge
		pool := pools(t, s, redis.DialNetDial(g.dial))[name]
		pool.MaxActive, pool.MaxIdle, pool.Wait = limit, limit, true
		client := newClient(t, pool, redimutex.WithTTL(time.Minute))
		var all sync.WaitGroup
		for i := range 300 {
			m := client.Mutex(fmt.Sprint(name, i))
			require.NoError(t, m.LockContext(t.Context(), 0))
			all.Go(func() {
				for range 10 {
					assert.NoError(t, m.Lease().Extend(t.Context(), time.Minute))
				}
			})
		}
		all.Wait()
		assert.Less(t, g.most.Load(), int64(3*limit), name)
	}
}

// A try can go on over two connections. It must not send as many futile commands as over a pool with twenty.
func TestATryOverSharedConnectionsSendsFewCommandsToAReplica(t *testing.T) {
	t.Parallel()
	var g gauge
	_, replicas := redistest.Replicas(t, 1)
	pool := pools(t, replicas[0], redis.DialNetDial(g.dial))["plain"]
	m := newMutex(t, pool, "k",
		redimutex.WithMultiplexing(2), redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10*time.Second))
	require.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrUnavailable)
	assert.Less(t, g.writes.Load(), int64(20), "TIME and a script, over one connection and two in its place")
}
