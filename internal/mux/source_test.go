package mux_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/mux"
	"github.com/redimutex/redimutex/internal/redistest"
)

// lender is a pool that can't be asked for connections of our own.
type lender struct{ *redis.Pool }

func TestABorrowedConnectionIsGivenBackInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		pool := w.pool()
		defer pool.Close()
		for range 20 {
			p := mux.New(lender{pool}, 1)
			require.True(t, works(p))
			time.Sleep(time.Second)
			require.True(t, works(p))
			assert.Equal(t, 1, pool.ActiveCount())
			assert.Zero(t, pool.IdleCount())
			c, err := p.GetContext(t.Context())
			require.NoError(t, err)
			for range 10 { // their replies come when nobody wants them any more
				require.NoError(t, c.Send("ECHO", "late"))
			}
			require.NoError(t, c.Flush())
			require.NoError(t, p.Close())
			assert.Equal(t, 1, pool.IdleCount())

			own := pool.Get()
			got, err := redis.String(own.Do("ECHO", "own"))
			require.NoError(t, err)
			assert.Equal(t, "own", got, "the next user gets its own replies")
			own.Close()
		}
		dials, _ := w.counted()
		assert.Equal(t, 1, dials)
	})
}

func TestABorrowedConnectionThatIsSilentIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		pool := w.pool()
		pool.MaxActive = 1
		defer pool.Close()
		p := share(t, lender{pool}, 1)
		c := get(t, p)
		release := w.hold()
		_, err := c.DoWithTimeout(10*time.Millisecond, "PING")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, p.Get().Err(), redis.ErrPoolExhausted, "the pool has not got it back yet")
		time.Sleep(5 * time.Second)
		release()
		time.Sleep(time.Second)
		assert.True(t, works(p))
	})
}

// getter is a pool that has nothing but Get.
type getter struct{ pool *redis.Pool }

func (g getter) Get() redis.Conn { return g.pool.Get() }

func TestAPoolNeedsNothingButGet(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := share(t, getter{s.Pool()}, 2)
	assert.True(t, works(p))
	s.Kill()
	redistest.Wait(t, "the server is missed", func() bool { return !works(p) && p.Get().Err() != nil })
}

func TestPoolsOfTestsThatStandInBetweenWork(t *testing.T) {
	t.Parallel()
	between := redistest.NewBetween(redistest.Start(t).Pool())
	p := share(t, between, 1)
	require.True(t, works(p))
	between.Set(func(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut })
	c := p.Get()
	_, err := c.Do("PING")
	assert.ErrorContains(t, err, redistest.ErrCut.Error())
	c.Close()
	between.Set(nil)
	redistest.Wait(t, "it works again", func() bool { return works(p) })
}

// node is a connection to one node of a cluster.
type node struct{ redis.Conn }

func (node) Bind(...string) error { return nil }

type cluster struct{ pool *redis.Pool }

func (c cluster) Get() redis.Conn                                   { return node{c.pool.Get()} }
func (cluster) EachNode(bool, func(string, redis.Conn) error) error { return nil }

func TestConnectionsOfAClusterAreNotShared(t *testing.T) {
	t.Parallel()
	source := cluster{redistest.Start(t).Pool()}
	assert.True(t, mux.Clustered(source))
	assert.False(t, mux.Clustered(source.pool))
	assert.ErrorContains(t, share(t, source, 1).Get().Err(), "cluster")
}

func TestAConnectionOfItsOwnCanBeHad(t *testing.T) {
	t.Parallel()
	pool := redistest.Start(t).Pool()
	dial, lent := share(t, pool, 1).Dialler()
	c, err := dial(t.Context())
	require.NoError(t, err)
	defer c.Close()
	assert.False(t, lent)
	assert.Zero(t, pool.ActiveCount())
	_, err = c.Do("SUBSCRIBE", "channel")
	assert.NoError(t, err)
	_, lent = share(t, lender{pool}, 1).Dialler()
	assert.True(t, lent)
}
