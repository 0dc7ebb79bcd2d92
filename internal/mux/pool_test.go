package mux_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/mux"
	"github.com/redimutex/redimutex/internal/redistest"
)

// works reports whether a command gets through, within a time that is long for a server that answers.
func works(p *mux.Pool) bool {
	ctx := until(10 * time.Second)
	c, err := p.GetContext(ctx)
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = do(ctx, c, "PING")
	return err == nil
}

func TestABrokenConnectionFailsWhatWasUnderWayAndIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := share(t, w.pool(), 1)
		c := get(t, p)
		release := w.hold()
		var group sync.WaitGroup
		var failed atomic.Int32
		for range 10 {
			group.Go(func() {
				if _, err := within(get(t, p), time.Minute, "PING"); err != nil {
					failed.Add(1)
				}
			})
		}
		synctest.Wait()
		w.hangUp()
		release()
		group.Wait()
		assert.EqualValues(t, 10, failed.Load())
		assert.Error(t, c.Err(), "one that was got before")
		_, err := within(c, time.Minute, "PING")
		assert.Error(t, err)
		for range 10 { // and one that breaks as soon as it is there
			began := time.Now()
			require.True(t, works(p))
			assert.Less(t, time.Since(began), 100*time.Millisecond)
			w.hangUp()
			synctest.Wait()
		}
	})
}

func TestAFailedDialIsToldAtOnceAndNotRepeatedAllTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := share(t, w.pool(), 1)
		w.cut(true)
		began := time.Now()
		for time.Since(began) < 10*time.Second {
			_, err := p.GetContext(t.Context())
			require.ErrorIs(t, err, errDown)
			time.Sleep(time.Millisecond)
		}
		dials, _ := w.counted()
		assert.Greater(t, dials, 10)
		assert.Less(t, dials, 50)
		w.cut(false)
		time.Sleep(time.Second)
		assert.True(t, works(p))
	})
}

func TestWaitingForADialEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		slow := w.pool()
		dial := slow.Dial
		var hangs atomic.Bool
		hangs.Store(true)
		slow.Dial = func() (redis.Conn, error) {
			if hangs.Load() {
				time.Sleep(time.Minute)
			}
			return dial()
		}
		p := share(t, slow, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := p.GetContext(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = p.GetContext(t.Context())
		assert.ErrorIs(t, err, context.DeadlineExceeded, "a dial is given up")
		assert.InDelta(t, 2*nodeTimeout, time.Since(began), float64(10*time.Millisecond))
		hangs.Store(false)
		time.Sleep(time.Second)
		assert.True(t, works(p), "the dial was left behind")
		time.Sleep(2 * time.Minute)
	})
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := mux.New(conn.Of(w.pool()), 2, nodeTimeout)
		before := get(t, p)
		defer w.hold()()
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				_, err := within(get(t, p), time.Minute, "PING")
				assert.ErrorContains(t, err, "closed")
			})
		}
		synctest.Wait()
		began := time.Now()
		p.Close(nodeTimeout)
		group.Wait()
		assert.Zero(t, time.Since(began))
		p.Close(nodeTimeout)
		_, err := within(before, time.Minute, "PING")
		assert.ErrorContains(t, err, "closed")
		assert.ErrorContains(t, before.Err(), "closed")
	})
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := share(t, w.pool(), 1)
		for range 10 {
			require.True(t, works(p))
			time.Sleep(time.Minute)
		}
		dials, _ := w.counted()
		assert.Equal(t, 1, dials, "it was in use")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.Zero(t, w.server.CurrentConnectionCount())
		assert.True(t, works(p))
	})
}

func TestAConnectionMayBeIdleForLongerThanItsTimeoutForReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		w.timeout = time.Second
		p := share(t, w.pool(), 1)
		for range 3 {
			require.True(t, works(p))
			time.Sleep(10 * w.timeout)
		}
		dials, _ := w.counted()
		assert.Equal(t, 1, dials)
	})
}

func TestAPausedServerDelaysNobodyBeyondHisDeadline(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	p := share(t, s.Pool(), 2)
	require.True(t, works(p))
	s.Pause()
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			for time.Since(began) < 3*time.Second { // the connections are given up meanwhile
				c, err := p.GetContext(ctx)
				if err != nil {
					return
				}
				_, err = within(c, 50*time.Millisecond, "PING")
				assert.Error(t, err)
				c.Close()
			}
		})
	}
	group.Wait()
	s.Resume()
	redistest.Wait(t, "it works again", func() bool { return works(p) })
}

func TestAServerThatBecameAReplicaIsDialledAnew(t *testing.T) {
	t.Parallel()
	old, promoted := redistest.Real(t), redistest.Real(t)
	primary := atomic.Pointer[string]{}
	addr, next := old.Addr(), promoted.Addr()
	primary.Store(&addr)
	p := share(t, &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", *primary.Load()) }}, 1)
	require.True(t, works(p))
	host, port, _ := net.SplitHostPort(next)
	old.Do("REPLICAOF", host, port)
	primary.Store(&next)
	redistest.Wait(t, "the new primary is written to", func() bool {
		c := get(t, p)
		_, err := within(c, 10*time.Second, "SET", "k", "v")
		if err != nil {
			conn.Discard(c)
		}
		return err == nil
	})
	assert.Equal(t, "v", promoted.Get("k"))
}

func TestAfterCloseEachCallerHasAConnectionOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := mux.New(conn.Of(w.pool()), 1, nodeTimeout)
		require.True(t, works(p))
		p.Close(nodeTimeout)
		c, err := p.GetContext(t.Context())
		require.NoError(t, err)
		_, err = within(c, time.Minute, "PING")
		require.NoError(t, err)
		require.NoError(t, c.Close())
		synctest.Wait()
		assert.Zero(t, w.server.CurrentConnectionCount())
	})
}

func TestAConnectionEndsAtTheLifetimeOfItsPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		pool := w.pool()
		pool.MaxConnLifetime = time.Second
		p := share(t, pool, 1)
		for range 30 {
			require.True(t, works(p))
			time.Sleep(100 * time.Millisecond)
		}
		dials, _ := w.counted()
		assert.Equal(t, 3, dials)
		old := get(t, p)
		release := w.hold()
		var group sync.WaitGroup
		group.Go(func() {
			_, err := within(old, time.Minute, "PING")
			assert.NoError(t, err, "what is under way is answered")
		})
		time.Sleep(time.Second)
		fresh := get(t, p)
		assert.NoError(t, old.Err())
		release()
		group.Wait()
		synctest.Wait()
		assert.Error(t, old.Err())
		assert.NoError(t, fresh.Err())
		synctest.Wait()
		assert.LessOrEqual(t, w.server.CurrentConnectionCount(), 1)
	})
}
