package lease_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// The release can't be sent. What an Extend has asked for is how long the key may live then.
func TestAReleaseThatFailedIsRepeatedForAsLongAsTheKeyMayLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, real := redistest.Virtual(t)
		pool := redistest.NewBetween(real)
		m := newClient(t, []redimutex.Pool{pool}, redimutex.WithTTL(time.Second)).Mutex("k")
		m.Lock()
		require.NoError(t, m.Lease().Extend(t.Context(), time.Minute))
		pool.Set(func(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut })
		assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrUnavailable)
		time.Sleep(20 * time.Second)
		require.True(t, server.Exists("k"))
		pool.Set(nil)
		time.Sleep(5 * time.Second)
		assert.False(t, server.Exists("k"), "it has no owner, and it would live for another %v", server.TTL("k"))
	})
}

// After Close nothing works in the background that could go on with a release that was cut short.
func TestUnlockAfterCloseDeletesTheKeyAlsoWhereItsContextEndsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, real := redistest.Virtual(t)
		far := slowGet{real}
		c := newClient(t, []redimutex.Pool{far}, redimutex.WithNodeTimeout(time.Second))
		m := c.Mutex("k")
		m.Lock()
		require.NoError(t, c.Close())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, m.UnlockContext(ctx), redimutex.ErrClosed)
		assert.False(t, server.Exists("k"), "it has no owner, and it would live for another %v", server.TTL("k"))
	})
}

// slowGet is a pool whose connections take a while to make.
type slowGet struct{ redimutex.Pool }

func (p slowGet) Get() redis.Conn {
	time.Sleep(100 * time.Millisecond)
	return p.Pool.Get()
}
