package mux_test

import (
	"context"
	"errors"
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
	c := p.Get()
	defer c.Close()
	_, err := within(c, 10*time.Second, "PING")
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
		_, err := c.Do("PING")
		assert.Error(t, err)
		time.Sleep(time.Second)
		assert.True(t, works(p))
	})
}

func TestASilentConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := share(t, w.pool(), 1)
		c := get(t, p)
		release := w.hold()
		_, err := within(c, 10*time.Millisecond, "PING")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		began := time.Now()
		_, err = within(c, time.Minute, "PING")
		require.Error(t, err)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(began), time.Second)
		release()
		assert.True(t, works(p))
		dials, _ := w.counted()
		assert.Equal(t, 2, dials)
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
			c := p.Get()
			require.ErrorIs(t, c.Err(), errDown)
			_, err = c.Do("PING")
			require.ErrorIs(t, err, errDown)
			require.NoError(t, c.Close())
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
		_, err := p.GetContext(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		began := time.Now()
		assert.Error(t, p.Get().Err())
		assert.LessOrEqual(t, time.Since(began), 2*nodeTimeout)
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
		_, err := before.Do("PING")
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
			_, err := get(t, p).Do("PING")
			require.NoError(t, err)
			time.Sleep(10 * w.timeout)
		}
		dials, _ := w.counted()
		assert.Equal(t, 1, dials)
	})
}

func TestKilledConnectionsComeBackAsThePoolDialsThem(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ChannelRules)
	s := redistest.Real(t, "--user", "default", "off", "--user", "app", "on", ">pw", "~*", "&*", "+@all",
		"--user", "operator", "on", ">op", "~*", "&*", "+@all")
	p := share(t, s.Pool(redis.DialUsername("app"), redis.DialPassword("pw"), redis.DialDatabase(3), redis.DialClientName("locks")), 2)
	operator, err := redis.Dial("tcp", s.Addr(), redis.DialUsername("operator"), redis.DialPassword("op"))
	require.NoError(t, err)
	defer operator.Close()
	over := make(chan struct{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for {
				c := p.Get()
				if n, err := redis.Int(within(c, time.Minute, "INCR", "n")); err == nil {
					assert.Positive(t, n)
				}
				c.Close()
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	for range 20 {
		redistest.Wait(t, "a connection to kill", func() bool {
			n, err := redis.Int(operator.Do("CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"))
			return err == nil && n > 0
		})
	}
	close(over)
	group.Wait()
	redistest.Wait(t, "it works again", func() bool { return works(p) })
	c := get(t, p)
	got, err := redis.String(c.Do("CLIENT", "INFO"))
	require.NoError(t, err)
	for _, want := range []string{" db=3 ", " user=app ", " name=locks "} {
		assert.Contains(t, got, want)
	}
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

func TestARestartedServerIsFoundAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := share(t, s.Pool(), 3)
	require.True(t, works(p))
	for range 3 {
		s.Restart()
		redistest.Wait(t, "it works again", func() bool { return works(p) })
	}
	s.Kill()
	redistest.Wait(t, "an error that says that nobody is there", func() bool {
		var network *net.OpError
		return errors.As(p.Get().Err(), &network)
	})
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
		c := p.Get()
		defer c.Close()
		_, err := within(c, 10*time.Second, "SET", "k", "v")
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
		_, err = c.Do("PING")
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
		synctest.Wait()
		assert.LessOrEqual(t, w.server.CurrentConnectionCount(), 1)
	})
}

// On 32 bits an int would have been negative after so many.
func TestTheTurnOfTheConnectionsNeverOverflows(t *testing.T) {
	t.Parallel()
	p := share(t, newWire(t).pool(), 2)
	p.SetTurn(1<<31 - 2)
	for range 4 {
		require.True(t, works(p))
	}
	p.SetTurn(1<<64 - 2)
	for range 4 {
		require.True(t, works(p))
	}
}
