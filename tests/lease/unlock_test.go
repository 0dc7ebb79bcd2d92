package lease_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// lateness is by how much a call may overrun its bound in virtual time, where all else takes none.
const lateness = 50 * time.Millisecond

func TestUnlockTakesOneNodeTimeoutAlsoWhileARenewalHangs(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for name, ctx := range map[string]context.Context{"with a ctx that has ended": over, "with a ctx": context.Background()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, real := redistest.Virtual(t)
				pool := redistest.NewBetween(real)
				const timeout = 4 * time.Second
				m := newClient(t, []redimutex.Pool{pool}, redimutex.WithTTL(9*time.Second), redimutex.WithNodeTimeout(timeout)).Mutex("k")
				m.Lock()
				answer := make(chan struct{})
				var began atomic.Bool
				pool.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
					began.Store(true)
					<-answer
					return run()
				})
				time.Sleep(3100 * time.Millisecond)
				require.True(t, began.Load(), "a renewal is under way, and just so")
				unlock := time.Now()
				assert.Error(t, m.UnlockContext(ctx), "the server does not answer")
				assert.LessOrEqual(t, time.Since(unlock), timeout+lateness)
				pool.Set(nil)
				close(answer)
			})
		})
	}
}

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

func TestUnlockTakesOneNodeTimeoutOnAServerThatWasStoppedDuringARenewal(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	p := s.Proxy()
	const timeout = time.Second
	c := newClient(t, []redimutex.Pool{newPool(t, p.URL())}, redimutex.WithTTL(3*time.Second), redimutex.WithNodeTimeout(timeout))
	m := c.Mutex("k")
	redistest.Repeat(t, "a renewal that hangs when the lock is unlocked, on a machine that is not late", func() bool {
		s.Do("DEL", "k")
		require.NoError(t, m.LockContext(t.Context(), time.Minute))
		renewal := p.Catch(m.Lease().Token())
		defer renewal.Release()
		<-renewal.Arrived()
		s.Pause()
		defer s.Resume()
		var err error
		over, late := redistest.Overrun(timeout, func() { err = m.UnlockContext(t.Context()) })
		if late > 100*time.Millisecond {
			return false
		}
		assert.Error(t, err, "the server does not answer")
		assert.Less(t, over, 300*time.Millisecond+2*late)
		return true
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
