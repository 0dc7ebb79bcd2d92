package mux_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
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

// works reports whether a command gets through, in a time that is long for a server that answers.
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
		for range 10 { // and after each connection that has lived for a second
			began := time.Now()
			require.True(t, works(p))
			assert.Less(t, time.Since(began), 100*time.Millisecond)
			time.Sleep(time.Second)
			w.hangUp()
			synctest.Wait()
		}
	})
}

// A server with too many clients lets them connect, and then hangs up.
func TestConnectionsThatBreakAtOnceAreDialledLessAndLessOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := share(t, w.pool(), 1)
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
			get(t, p)
			w.hangUp()
			synctest.Wait()
		}
		dials := w.counted()
		assert.Greater(t, dials, 10)
		assert.Less(t, dials, 50)
		get(t, p)
		time.Sleep(5 * time.Second) // this connection has lived for a while
		for range 3 {
			w.hangUp()
			synctest.Wait()
			began := time.Now()
			require.True(t, works(p))
			assert.Less(t, time.Since(began), 100*time.Millisecond)
		}
	})
}

func TestAFailedDialIsToldAtOnceAndNotRepeatedAllTheTime(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{time.Millisecond, 30 * time.Millisecond} { // of many callers, and of one that polls
		synctest.Test(t, func(t *testing.T) {
			w := newWire(t)
			p := share(t, w.pool(), 1)
			w.cut(true)
			began := time.Now()
			for time.Since(began) < 10*time.Second {
				_, err := p.GetContext(t.Context())
				require.ErrorIs(t, err, errDown)
				time.Sleep(pause)
			}
			dials := w.counted()
			assert.Greater(t, dials, 10)
			assert.Less(t, dials, 50)
			w.cut(false)
			time.Sleep(time.Second)
			assert.True(t, works(p))
		})
	}
}

// A renewal that fails is repeated about a node timeout later.
func TestAfterAnOutageTheServerIsThereWithinAFewNodeTimeouts(t *testing.T) {
	t.Parallel()
	const short = 40 * time.Millisecond
	for name, dials := range map[string]int{"refuses": 12, "hangs": 6} {
		hangs := name == "hangs"
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire(t)
				pool := w.pool()
				dial := pool.Dial
				pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
					c, err := dial()
					if err != nil && hangs {
						<-ctx.Done()
					}
					return c, err
				}
				p := mux.New(conn.Of(pool), 1, short)
				defer p.Close(short)
				ask := func() error {
					ctx, cancel := context.WithTimeout(t.Context(), short)
					defer cancel()
					_, err := p.GetContext(ctx)
					return err
				}
				for range 4 { // outages
					w.cut(true)
					w.hangUp()
					synctest.Wait()
					for last := w.counted() + dials; w.counted() < last; { // the outage ends just after the last dial has begun
						require.Error(t, ask())
						time.Sleep(time.Millisecond)
					}
					w.cut(false)
					began := time.Now()
					for ask() != nil && time.Since(began) < time.Minute {
						time.Sleep(time.Millisecond)
					}
					assert.Less(t, time.Since(began), 4*short, "two for the dial that hangs, and a pause")
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// The server may be far away, so that the first dials are given up too early.
func TestADialThatWasGivenUpIsFollowedByALongerOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		pool := w.pool()
		dial := pool.Dial
		pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
			select {
			case <-time.After(time.Second):
				return dial()
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		p := mux.New(conn.Of(pool), 1, 100*time.Millisecond)
		defer p.Close(time.Second)
		for began := time.Now(); !works(p); time.Sleep(time.Millisecond) {
			require.Less(t, time.Since(began), time.Minute)
		}
		w.hangUp()
		synctest.Wait()
		began := time.Now()
		for !works(p) {
			time.Sleep(time.Millisecond)
		}
		assert.Less(t, time.Since(began), 2*time.Second, "how long it takes was not learnt")
	})
}

// The deadline of an operation passes, but its ctx does not end.
func TestACallerWaitsForADialUntilItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		p := share(t, pool, 1)
		began := time.Now()
		_, err := p.GetContext(until(nodeTimeout / 2))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, nodeTimeout/2, time.Since(began))
	})
}

func TestAConnectionThatIsMadeAfterCloseEndsWithItsUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := share(t, w.pool(), 1)
		p.Close(nodeTimeout)
		c, err := p.GetContext(until(nodeTimeout))
		require.NoError(t, err)
		_, err = within(c, nodeTimeout, "PING")
		require.NoError(t, err)
		c.Close()
		synctest.Wait()
		assert.Zero(t, w.server.CurrentConnectionCount())
	})
}

// A server that stays a replica is not dialled again and again.
func TestAConnectionThatIsDiscardedEndsUnlessItIsNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := share(t, newWire(t).pool(), 1)
		c := get(t, p)
		conn.Close(c, true)
		assert.NoError(t, c.Err())
		time.Sleep(2 * time.Second)
		conn.Close(c, true)
		assert.Error(t, c.Err())
		assert.True(t, works(p), "it was replaced")
	})
}

// A connection that breaks at once is dialled again a little later. Close must prevent that.
func TestAClosedPoolDialsNoConnectionAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		p := share(t, w.pool(), 1)
		get(t, p)
		w.hangUp()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := p.GetContext(ctx)
		require.Error(t, err)
		closing := time.Now()
		p.Close(time.Minute)
		assert.Less(t, time.Since(closing), time.Second, "it waits for nothing that has ended")
		time.Sleep(time.Second)
		assert.Equal(t, 1, w.counted())
	})
}

// The connection has a second to write the undos of unanswered commands.
func TestAConnectionThatTakesNothingEndsWithItsPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe() // on which no one reads
		defer theirs.Close()
		e := &end{Conn: ours, wire: new(wire), gone: make(chan struct{})}
		p := share(t, &redis.Pool{Dial: func() (redis.Conn, error) { return redis.NewConn(e, 0, 0), nil }}, 1)
		_, err := within(get(t, p), time.Millisecond, "PING")
		require.Error(t, err)
		time.Sleep(nodeTimeout + nodeTimeout/10)
		p.Close(nodeTimeout / 10)
		select {
		case <-e.gone:
		default:
			assert.Fail(t, "it is open")
		}
	})
}

// Connections may be idle for longer than the read timeout of the dial.
func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		w.timeout = time.Second
		p := share(t, w.pool(), 1)
		for range 10 {
			require.True(t, works(p))
			time.Sleep(time.Minute)
		}
		dials := w.counted()
		assert.Equal(t, 1, dials, "it was in use")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.Zero(t, w.server.CurrentConnectionCount())
		assert.True(t, works(p))
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
		dials := w.counted()
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

// The last call of a connection that is too old may leave before it is written. Then no reply ends the connection.
func TestAConnectionThatIsTooOldEndsWithItsLastCallHoweverThatEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := s.Pool()
	pool.MaxConnLifetime = 50 * time.Millisecond
	p := share(t, pool, 1)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 40000 {
				ctx, cancel := context.WithCancel(until(time.Minute))
				if c, err := p.GetContext(ctx); err == nil {
					go cancel()
					do(ctx, c, "PING") //nolint:errcheck // it may be cancelled
				}
				cancel()
			}
		})
	}
	group.Wait()
	redistest.Wait(t, "the last connection is left, and the one that asks", func() bool {
		return strings.Count(string(s.Do("CLIENT", "LIST", "TYPE", "NORMAL").([]byte)), " addr=") <= 2
	})
}

// A server with too many clients says so unasked, perhaps while the first command is being written. The race detector finds a
// call that is reused too early.
func TestAnErrorThatComesUnaskedDisturbsNoOtherCall(t *testing.T) {
	t.Parallel()
	full, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer full.Close()
	go func() {
		for c, err := full.Accept(); err == nil; c, err = full.Accept() {
			time.AfterFunc(rand.N(300*time.Microsecond), func() {
				fmt.Fprint(c, "-ERR max number of clients reached\r\n")
				time.AfterFunc(time.Millisecond, func() { c.Close() })
			})
		}
	}()
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", full.Addr().String()) }}
	p := mux.New(conn.Of(pool), 4, 100*time.Millisecond)
	defer p.Close(time.Second)
	args := make([]any, 200)
	for i := range args {
		args[i] = strconv.Itoa(i)
	}
	var callers sync.WaitGroup
	for range 32 {
		callers.Go(func() {
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				if c, err := p.GetContext(ctx); err == nil {
					_, err = redis.DoContext(c, ctx, "MGET", args...)
					assert.Error(t, err)
					c.Close()
				} else {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}
		})
	}
	callers.Wait()
}

// The server answers the command a moment after its caller has left, and never answers the undo behind it.
func TestAConnectionThatOwesAnUndoAloneEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan time.Time, 9)
		pool := &redis.Pool{MaxConnLifetime: nodeTimeout / 2, Dial: func() (redis.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				lines := bufio.NewScanner(theirs)
				for lines.Scan() {
					if strings.Contains(lines.Text(), "SET") {
						time.AfterFunc(nodeTimeout+10*time.Millisecond, func() { fmt.Fprint(theirs, "+OK\r\n") })
					}
				}
				gone <- time.Now()
			}()
			return redis.NewConn(ours, 0, 0), nil
		}}
		p := mux.New(conn.Of(pool), 1, nodeTimeout)
		_, err := get(t, p).DoContext(until(nodeTimeout, "DEL", "k"), "SET", "k", "v")
		require.ErrorIs(t, err, conn.ErrTimeout)
		time.Sleep(nodeTimeout / 2)
		get(t, p) // over another connection: the first is too old
		p.Close(nodeTimeout)
		closed := time.Now()
		for range 2 {
			end := <-gone
			assert.Less(t, end.Sub(closed), 2*nodeTimeout)
		}
	})
}
