package server_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/mux"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// A wrapper is a pool that wraps the connections of redigo in others.
type wrapper struct {
	pool *redis.Pool
	wrap func(redis.Conn) redis.Conn
}

func (w wrapper) Get() redis.Conn { return w.wrap(w.pool.Get()) }

func TestConnectionsWithoutTimeoutsWork(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s := open(t, wrapper{r.Pool(), func(c redis.Conn) redis.Conn { return struct{ redis.Conn }{c} }})
	everything(t, s)
	assert.Len(t, r.Keys(), 1, "the fence counter")
}

// everything uses all that a Server can do, on several keys.
func everything(t *testing.T, s *server.Server) {
	t.Helper()
	var batch []*hold
	for i := range 5 {
		q := request(fmt.Sprint("k", i))
		batch = append(batch, q)
		done(t, acquire(s, q))
	}
	for _, reply := range extend(s, batch) {
		done(t, reply)
	}
	_, err := get(s, "k0", 10*time.Second)
	require.NoError(t, err)
	done(t, release(s, batch[0]))
	for _, q := range batch[1:] {
		releaseLater(s, q)
	}
	plain := request("plain")
	plain.Try.Plain = true
	done(t, acquire(s, plain))
	done(t, release(s, plain))
	fenced := request("fenced")
	fenced.Fence = server.NextFence
	done(t, raise(s, fenced, 1))
	redistest.Wait(t, "the rest is undone", func() bool {
		for _, q := range batch {
			if v, err := get(s, q.Key, 10*time.Second); err != nil || v != nil {
				return false
			}
		}
		return true
	})
}

func TestAConnectionThatCannotBeBoundIsAnError(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s := open(t, wrapper{r.Pool(), func(c redis.Conn) redis.Conn { return unboundConn{c} }})
	failed(t, acquire(s, request("k")))
	failed(t, one(s, request("k")))
	assert.Empty(t, r.Keys())
}

type unboundConn struct{ redis.Conn }

func (unboundConn) Bind(...string) error { return errors.New("no node serves the slot") }

// A contextPool calls look with the context that it gets.
type contextPool struct {
	*redis.Pool
	look func(context.Context) error
}

func (p contextPool) GetContext(ctx context.Context) (redis.Conn, error) {
	if err := p.look(ctx); err != nil {
		return nil, err
	}
	return p.Pool.GetContext(ctx)
}

// Nothing of one operation's context may leak into the next operation.
func TestADeadlineBelongsToOneOperation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		var kept []context.Context
		var wait atomic.Bool
		var mu sync.Mutex
		s := open(t, contextPool{pool, func(ctx context.Context) error {
			if wait.Load() {
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				kept = append(kept, ctx)
				return ctx.Err()
			}
			return ctx.Err()
		}})
		q := request("k")
		for range 5 {
			wait.Store(true)
			failed(t, acquire(s, q))
			synctest.Wait()
			wait.Store(false)
			done(t, acquire(s, q))
			done(t, release(s, q))
		}
		mu.Lock()
		defer mu.Unlock()
		for _, ctx := range kept {
			require.Error(t, ctx.Err(), "an ended context came to life again")
		}
	})
}

func ask(token string, timeout time.Duration) *hold {
	q := request("k")
	q.Token, q.Timeout, q.TTL = token, timeout, 10*time.Second
	return q
}

func TestTheContextOfADialEndsWithTheCheckout(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var kept context.Context
	p := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		var cancel context.CancelFunc
		kept, cancel = context.WithCancel(ctx)
		_ = cancel // a dialler that keeps the context still finds it ended
		return redis.Dial("tcp", s.Addr())
	}}
	t.Cleanup(func() { p.Close() })
	srv := server.New(p)
	defer srv.Close(time.Second)
	require.Equal(t, server.Done, acquire(srv, ask("a", time.Minute)).Verdict)
	<-kept.Done()
	assert.ErrorIs(t, kept.Err(), context.Canceled)
}

// The reply is lost on its way. The repeat finds no lock. To report the lock as lost would be a false alarm.
func TestAReleaseWhoseReplyWasLostIsNoLoss(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		var executed atomic.Int64
		b.Set(func(command redistest.Command) (any, error) {
			reply, err := command.Run()
			if err == nil && executed.Add(1) == 1 { // and not NOSCRIPT
				return nil, redistest.ErrCut
			}
			return reply, err
		})
		done(t, release(s, q))
		assert.False(t, m.Exists("k"))
		assert.Greater(t, executed.Load(), int64(1), "it was not repeated, so nothing was shown")
	})
}

// A connection watches the ctx of its last operation until its next one. It has to watch the caller's ctx: the ctx of the
// operation itself may be reused for another caller by then, which the race detector would report.
func TestAConnectionThatWatchesItsLastOperationDoesNotDisturbTheNext(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	d := conn.NewDialer("tcp", r.Addr())
	pool := &redis.Pool{MaxIdle: 10, DialContext: d.DialContext}
	t.Cleanup(func() { pool.Close() })
	s := server.New(pool)
	defer s.Close(time.Second)
	var all sync.WaitGroup
	for _, key := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				c := request(key).claim(s)
				require.Equal(t, server.Done, c.Try(ctx, server.Try{}).Verdict)
				require.Equal(t, server.Done, c.Release(ctx, time.Now(), time.Time{}).Verdict)
				cancel()
			}
		})
	}
	all.Wait()
}

func TestTheRoundTripIsKnown(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		assert.Zero(t, s.RTT())
		b.Set(func(command redistest.Command) (any, error) {
			time.Sleep(80 * time.Millisecond)
			return command.Run()
		})
		for range 3 {
			q := request("k")
			done(t, acquire(s, q))
			done(t, release(s, q))
		}
		assert.Equal(t, 80*time.Millisecond, s.RTT())
	})
}

// punctualPools returns pools whose operations run on the goroutine of the caller.
func punctualPools(t *testing.T, r *redistest.Server) map[string]server.Pool {
	d := conn.NewDialer("tcp", r.Addr())
	ours := &redis.Pool{MaxIdle: 10, DialContext: d.DialContext, TestOnBorrowContext: d.TestIdle}
	waits := &redis.Pool{MaxIdle: 10, MaxActive: 2, Wait: true, DialContext: d.DialContext}
	shared := mux.New(conn.Of(r.Pool()), 2, time.Second)
	t.Cleanup(func() {
		ours.Close()
		waits.Close()
		shared.Close(time.Second)
	})
	return map[string]server.Pool{"ours": ours, "ours that waits": waits, "shared": shared}
}

func TestPunctualPoolsDoAllThatOthersDo(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	for name, pool := range punctualPools(t, r) {
		t.Run(name, func(t *testing.T) {
			r.Do("FLUSHALL")
			everything(t, open(t, pool))
		})
	}
}

// This replica does not come from a failover. It must not be asked once for each lease.
func TestABatchThatAReplicaRefusesIsSentOnceMore(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s := open(t, r.Pool())
	var batch []*hold
	for i := range 10 {
		q := request(fmt.Sprint(i))
		done(t, acquire(s, q))
		batch = append(batch, q)
	}
	r.Do("CONFIG", "RESETSTAT")
	r.Do("REPLICAOF", "127.0.0.1", "1") // there is no primary at this address, so the data stays
	for _, got := range extend(s, batch) {
		failed(t, got)
		assert.ErrorContains(t, got.Err, "READONLY")
	}
	assert.Equal(t, 2, r.Calls("eval"), "a batch brings its script along")
	assert.Equal(t, 18, r.Calls("evalsha"))
}

// They panic on a goroutine of this library.
func TestAConnectionThatPanicsWhenItIsLookedAtOrBoundIsAnError(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	failed(t, acquire(open(t, wrapper{r.Pool(), func(c redis.Conn) redis.Conn { return unbindableConn{c} }}), request("k")))
	var gone atomic.Bool
	s := open(t, wrapper{r.Pool(), func(c redis.Conn) redis.Conn { return &goneConn{Conn: c, first: !gone.Swap(true)} }})
	done(t, acquire(s, request("k")))
}

type unbindableConn struct{ redis.Conn }

func (unbindableConn) Bind(...string) error { panic("no idea where the slot is") }

// A goneConn breaks with its first command if first is set. After that, Err panics.
type goneConn struct {
	redis.Conn
	first, broken bool
}

func (c *goneConn) Do(command string, args ...any) (any, error) {
	if c.first {
		c.broken = true
		return nil, redistest.ErrCut
	}
	return c.Conn.Do(command, args...)
}

func (c *goneConn) Err() error {
	if c.broken {
		panic("no idea what has broken it")
	}
	return c.Conn.Err()
}

// A dialler is a pool that can also dial directly. Its Get waits while all connections are in use, as a cluster's may.
type dialler struct{ pool *redis.Pool }

func (d dialler) Get() redis.Conn           { return d.pool.Get() }
func (d dialler) Dial() (redis.Conn, error) { return d.pool.Dial() }

// Callers that hold locks may use all connections for as long as they hold the locks.
func TestAnExtensionNeitherWaitsLongForAFullPoolNorForThoseThatDo(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(*redis.Pool) server.Pool{
		"redigo's": func(p *redis.Pool) server.Pool { return p },
		"dialler":  func(p *redis.Pool) server.Pool { return dialler{p} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, pool := redistest.Virtual(t)
				pool.MaxActive, pool.Wait = 1, true
				s := open(t, of(pool))
				q := request("k")
				q.TTL, q.Timeout = time.Hour, time.Second
				done(t, acquire(s, q))
				user := pool.Get()
				require.NoError(t, user.Err())
				var others sync.WaitGroup
				for i := range 40 {
					o := request(fmt.Sprint(i))
					o.TTL, o.Timeout = time.Hour, 10*time.Minute
					others.Go(func() { failed(t, acquire(s, o)) })
				}
				for range 10 {
					others.Go(func() { // an operation dials first if the last one on its key had no answer
						for range 1000 {
							_, _ = get(s, "k", 100*time.Millisecond)
							time.Sleep(time.Millisecond)
						}
					})
				}
				for range 40 {
					if one(s, q).Verdict != server.Done { // it may find out that the pool gives none
						assert.NoError(t, one(s, q).Err)
					}
					time.Sleep(time.Second)
				}
				others.Wait()
				user.Close()
				done(t, one(s, q))
			})
		})
	}
}

// The pool is not one of redigo. As many extensions are stuck in it as may be.
func TestExtensionsThatAreStuckInAPoolDoNotKeepTheNextOnesFromDialling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		pool.MaxActive, pool.Wait = 1, true
		s := open(t, dialler{pool})
		var leases []*hold
		for i := range 40 {
			q := request(fmt.Sprint(i))
			q.TTL, q.Timeout = time.Hour, time.Second
			done(t, acquire(s, q))
			leases = append(leases, q)
		}
		user := pool.Get()
		require.NoError(t, user.Err())
		var all sync.WaitGroup
		for _, q := range leases {
			all.Go(func() {
				tries := 0
				for ; one(s, q).Verdict != server.Done && tries < 5; tries++ { // one that dialled makes the next wait again
				}
				assert.Less(t, tries, 5)
			})
		}
		all.Wait()
		user.Close()
	})
}

// A proud pool has its own error for a full pool.
type proud struct{ dialler }

type deniedConn struct{ redis.Conn }

func (proud) Get() redis.Conn   { return deniedConn{} }
func (deniedConn) Err() error   { return errors.New("come back later") }
func (deniedConn) Close() error { return nil }

func TestAnExtensionDialsWhateverThePoolSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		q := request("k")
		done(t, acquire(open(t, pool), q))
		done(t, one(open(t, proud{dialler{pool}}), q))
	})
}

// The pool is full only for moments, but the server takes no more connections. With a password, the dial itself is refused.
// Without one, only the first command is.
func TestAnExtensionWaitsForAFullPoolWhereTheServerTakesNoMore(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(redis.Conn) (redis.Conn, error){
		"the dial":    func(redis.Conn) (redis.Conn, error) { return nil, redis.Error("ERR max number of clients reached") },
		"the command": func(c redis.Conn) (redis.Conn, error) { return &hangingUp{Conn: c}, nil },
		"TLS":         func(redis.Conn) (redis.Conn, error) { return nil, io.EOF },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, pool := redistest.Virtual(t)
				pool.MaxActive, pool.Wait = 1, true
				var dials atomic.Int32
				dial := pool.Dial
				pool.Dial = func() (redis.Conn, error) {
					c, err := dial()
					if dials.Add(1) == 1 || err != nil {
						return c, err
					}
					t.Cleanup(func() { c.Close() })
					return refuse(c)
				}
				s := open(t, pool)
				q := request("k")
				q.TTL = time.Hour
				done(t, acquire(s, q))
				for n := range int32(20) {
					user := pool.Get()
					require.NoError(t, user.Err())
					time.AfterFunc(q.Timeout/2, func() { user.Close() })
					done(t, one(s, q))
					require.Equal(t, n+2, dials.Load(), "it has tried once to dial")
					time.Sleep(time.Minute)
				}
			})
		})
	}
}

// A mute connection does not answer while the server is silent. After that it is broken.
type muteConn struct {
	redis.Conn
	silent *atomic.Bool
	broken error
}

func (c *muteConn) DoWithTimeout(d time.Duration, command string, args ...any) (any, error) {
	if c.silent.Load() {
		time.Sleep(d)
		c.broken = os.ErrDeadlineExceeded
		return nil, c.broken
	}
	return redis.DoWithTimeout(c.Conn, d, command, args...)
}

func (c *muteConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, d)
}

func (c *muteConn) Err() error { return cmp.Or(c.broken, c.Conn.Err()) }

// No caller waits for the release, and the connections of the pool may be just as silent for the next try.
func TestAReleaseInTheBackgroundLeavesItToTheNextTryToDialToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		pool.MaxIdle = 2
		var silent atomic.Bool
		dial := pool.Dial
		pool.Dial = func() (redis.Conn, error) {
			c, err := dial()
			if silent.Load() {
				return c, err
			}
			return &muteConn{Conn: c, silent: &silent}, err
		}
		s := open(t, pool)
		q := request("k")
		done(t, acquire(s, q))
		users := []redis.Conn{pool.Get(), pool.Get()}
		for _, user := range users {
			require.NoError(t, user.Close())
		}
		require.Equal(t, 2, pool.IdleCount())
		silent.Store(true)
		failed(t, one(s, q))
		releaseLater(s, q)
		time.Sleep(time.Second)
		done(t, acquire(s, request("k")))
	})
}

// The count limits the dials beside the pool, so it must stay right, whatever became of earlier operations.
func TestEachOperationThatDialsIsCountedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		pool.MaxActive, pool.Wait = 2, true
		var silent, refused, slow atomic.Bool
		var dials atomic.Int32
		dial := pool.Dial
		pool.Dial = func() (redis.Conn, error) {
			dials.Add(1)
			if refused.Load() {
				return nil, redis.Error("ERR max number of clients reached")
			}
			if slow.Load() {
				time.Sleep(request("").Timeout / 2)
			}
			c, err := dial()
			return &muteConn{Conn: c, silent: &silent}, err
		}
		s := open(t, pool)
		forget := func(key string) { // after this, the next operation on the key dials
			silent.Store(true)
			failed(t, acquire(s, request(key)))
			silent.Store(false)
			time.Sleep(time.Minute) // what the failed try left is released
			done(t, acquire(s, request("before "+key)))
			require.Equal(t, 1, pool.IdleCount())
			dials.Store(0)
		}
		beside := func(key string) bool {
			forget(key)
			done(t, acquire(s, request(key)))
			return dials.Load() == 1
		}
		require.True(t, beside("first"))
		q := request("k")
		q.TTL = time.Hour
		done(t, acquire(s, q))
		users := []redis.Conn{pool.Get(), pool.Get()}
		refused.Store(true)
		for range 5 {
			failed(t, one(s, q))
		}
		for _, user := range users {
			user.Close()
		}
		refused.Store(false)
		require.True(t, beside("after those that were refused"))
		keys := []string{"a", "b", "c", "d"}
		for _, key := range keys {
			forget(key)
		}
		slow.Store(true)
		user := pool.Get() // so those that go over the pool share no connection
		var all sync.WaitGroup
		for _, key := range keys {
			all.Go(func() { done(t, acquire(s, request(key))) })
		}
		all.Wait()
		user.Close()
		slow.Store(false)
		require.EqualValues(t, 3, dials.Load(), "two went over the pool, which had one")
		assert.True(t, beside("after two that could not dial"))
	})
}

// A hangingUp connection reports that the server takes no more connections, and then breaks.
type hangingUp struct {
	redis.Conn
	sent, commands int
}

func (c *hangingUp) Send(string, ...any) error {
	c.sent++
	return nil
}

func (c *hangingUp) Do(command string, _ ...any) (any, error) {
	refusal := redis.Error("ERR max number of clients reached")
	switch n := c.sent; {
	case command == "" && n == 0: // the pool flushes the connection as it comes back
		return nil, nil
	case command == "":
		c.sent, c.commands = 0, c.commands+n
		if n == 1 && c.commands == 1 {
			return []any{refusal}, nil
		}
		return nil, io.EOF
	}
	if c.commands++; c.commands > 1 {
		return nil, io.EOF
	}
	return nil, refusal
}

func (c *hangingUp) Err() error {
	if c.commands > 1 {
		return io.EOF
	}
	return nil
}

// The pool has hangingUp connections, and a good one, which it gives out last.
func TestAnExtensionFindsTheGoodConnectionsOfThePoolWhereTheServerTakesNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		pool.MaxActive, pool.MaxIdle = 4, 4
		var full atomic.Bool
		dial := pool.Dial
		pool.Dial = func() (redis.Conn, error) {
			c, err := dial()
			if full.Load() && err == nil {
				t.Cleanup(func() { c.Close() })
				return &hangingUp{Conn: c}, nil
			}
			return c, err
		}
		s := open(t, pool)
		q := request("k")
		q.TTL = time.Hour
		done(t, acquire(s, q))
		good := pool.Get()
		full.Store(true)
		users := []redis.Conn{good, pool.Get(), pool.Get(), pool.Get()}
		failed(t, one(s, q)) // the pool is full, and the dialled connection is refused
		for _, user := range users {
			require.NoError(t, user.Close()) // the pool gives out last what came back first
		}
		done(t, one(s, q))
	})
}

func TestExtensionsDialAFewTimesAtMostWhereTheServerTakesNoMoreAndThePoolHasNone(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]func(*redis.Pool) server.Pool{
		"any number": func(p *redis.Pool) server.Pool { return p },
		"some": func(p *redis.Pool) server.Pool {
			p.MaxActive, p.Wait = 3, true
			return p
		},
		"of another type": func(p *redis.Pool) server.Pool { return dialler{p} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, pool := redistest.Virtual(t)
				s := open(t, kind(pool))
				const n = 10
				for i := range n {
					done(t, acquire(s, request(fmt.Sprint(i))))
				}
				user := pool.Get()
				require.NoError(t, user.Err())
				defer user.Close()
				var dials atomic.Int32
				pool.Dial = func() (redis.Conn, error) {
					dials.Add(1)
					time.Sleep(time.Millisecond)
					return nil, redis.Error("ERR max number of clients reached")
				}
				var all sync.WaitGroup
				for i := range n {
					all.Go(func() { failed(t, one(s, request(fmt.Sprint(i)))) })
				}
				all.Wait()
				assert.LessOrEqual(t, dials.Load(), int32(11*n))
			})
		})
	}
}

func TestWhatIsUrgentWaitsForAConnectionThatComesBackWhereTheServerTakesNoMore(t *testing.T) {
	t.Parallel()
	for refused, dial := range map[string]func() (redis.Conn, error){
		"the dial":    func() (redis.Conn, error) { return nil, redis.Error("ERR max number of clients reached") },
		"TLS":         func() (redis.Conn, error) { return nil, io.EOF },
		"the command": func() (redis.Conn, error) { return &hangingUp{}, nil },
	} {
		for urgent, ask := range map[string]func(t *testing.T, s *server.Server, a, b *hold){
			"an extension": func(t *testing.T, s *server.Server, a, _ *hold) { done(t, one(s, a)) },
			"extensions": func(t *testing.T, s *server.Server, a, b *hold) {
				for _, reply := range extend(s, []*hold{a, b}) {
					done(t, reply)
				}
			},
			"a release in the background": func(_ *testing.T, s *server.Server, a, _ *hold) { releaseLater(s, a) },
		} {
			for _, limit := range []int{0, 1} { // a pool that is full and does not wait gives no connection either
				t.Run(fmt.Sprint(urgent, ", refused: ", refused, ", pool of ", limit), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						m, pool := redistest.Virtual(t)
						pool.MaxActive = limit
						s := open(t, pool)
						a, b := request("a"), request("b")
						done(t, acquire(s, a))
						done(t, acquire(s, b))
						user := pool.Get()
						require.NoError(t, user.Err())
						good := pool.Dial
						pool.Dial = dial
						time.AfterFunc(a.Timeout/4, func() {
							user.Close()
							time.Sleep(3 * time.Millisecond) // the operation has to take the connection in this moment
							user = pool.Get()
						})
						ask(t, s, a, b)
						time.Sleep(a.Timeout / 2)
						synctest.Wait()
						assert.Equal(t, !strings.Contains(urgent, "release"), m.Exists("a"))
						pool.Dial = good
						user.Close()
					})
				})
			}
		}
	}
}

func TestAFullPoolIsNotTakenForASilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		pool.MaxActive, pool.Wait = 1, true
		s := open(t, pool)
		user := pool.Get()
		require.NoError(t, user.Err())
		for range 20 { // there are two timers, and that of the operation must not fire first
			require.ErrorContains(t, acquire(s, request("k")).Err, "no connection of the pool came free")
		}
		user.Close()
	})
}

// A late reply would break the connection, and then the pool would have to dial.
func TestAConnectionThatComesTooLateForAReplyIsGivenBackAsItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		pool.MaxActive, pool.Wait = 1, true
		b := redistest.NewBetween(pool)
		s := open(t, b)
		q, other := request("k"), request("other")
		done(t, acquire(s, q))
		var sent counter
		b.Set(sent.count)
		user := pool.Get()
		time.AfterFunc(q.Timeout-time.Millisecond/2, func() { user.Close() })
		failed(t, acquire(s, other))
		assert.Empty(t, sent.take())
	})
}

// Otherwise the delay would seem to be the server's fault, also to the callers who wait behind this one.
func TestATryThatHasTooLittleTimeLeftReturnsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		pool.MaxActive, pool.Wait = 1, true
		s := open(t, redistest.NewBetween(pool))
		user := pool.Get()
		ctx, cancel := context.WithTimeout(t.Context(), 80*time.Millisecond)
		defer cancel()
		time.AfterFunc(79500*time.Microsecond, func() { user.Close() })
		q := request("k")
		got := q.claim(s).Try(ctx, q.Try)
		require.ErrorIs(t, got.Err, context.DeadlineExceeded)
		deadline, _ := ctx.Deadline()
		assert.False(t, time.Now().Before(deadline))
		assert.Zero(t, s.Failed.Load())

		user = pool.Get() // if its node timeout is over, the failure has nothing to do with ctx
		q = request("other")
		q.Replicas = replicas(time.Minute)
		ctx, cancel = context.WithTimeout(t.Context(), 2*q.Timeout)
		defer cancel()
		time.AfterFunc(q.Timeout-time.Millisecond/2, func() { user.Close() })
		got = q.claim(s).Try(ctx, q.Try)
		require.Error(t, got.Err)
		require.NoError(t, ctx.Err())
		assert.NotErrorIs(t, got.Err, context.DeadlineExceeded)
	})
}

func TestATimeoutOfTheDialIsNotTheEndOfTheCallersTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, redistest.NewBetween(&redis.Pool{Dial: func() (redis.Conn, error) {
			time.Sleep(20 * time.Millisecond)
			return nil, os.ErrDeadlineExceeded
		}}))
		ctx, cancel := context.WithTimeout(t.Context(), 80*time.Millisecond)
		defer cancel()
		q := request("k")
		got := q.claim(s).Try(ctx, q.Try)
		require.NoError(t, ctx.Err())
		require.ErrorIs(t, got.Err, conn.ErrTimeout)
		assert.NotErrorIs(t, got.Err, context.DeadlineExceeded)
	})
}

// The next operation dials if a connection of the pool was silent, but not if the pool had no connection to give.
func TestAnOperationThatWaitedForThePoolSaysNothingOfItsConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		pool.MaxActive, pool.Wait = 1, true
		var dials atomic.Int32
		dial := pool.Dial
		pool.Dial = func() (redis.Conn, error) { dials.Add(1); return dial() }
		s := open(t, pool)
		done(t, acquire(s, request("k")))
		user := pool.Get()
		q := request("other")
		time.AfterFunc(q.Timeout-time.Millisecond/2, func() { user.Close() })
		failed(t, acquire(s, q))
		done(t, acquire(s, request("other")))
		assert.EqualValues(t, 1, dials.Load())
	})
}

// A refusing connection refuses the second command of each batch of three, as a proxy does if one of its servers wants a
// password.
type refusing struct{ redis.Conn }

func (c refusing) DoWithTimeout(d time.Duration, name string, args ...any) (any, error) {
	reply, err := redis.DoWithTimeout(c.Conn, d, name, args...)
	if list, _ := reply.([]any); name == "" && len(list) == 3 {
		list[1] = redis.Error("NOAUTH Authentication required.")
	}
	return reply, err
}

func (c refusing) ReceiveWithTimeout(d time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, d)
}

func TestTheRefusalOfOneExtensionIsNotThatOfTheOthersInItsBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		dial := pool.Dial
		pool.Dial = func() (redis.Conn, error) {
			c, err := dial()
			return refusing{c}, err
		}
		s := open(t, pool)
		var batch []server.Extension
		for _, key := range []string{"a", "b", "c"} {
			q := request(key)
			batch = append(batch, server.Extension{Claim: held(t, s, q), TTL: q.TTL})
		}
		got := make([]server.Reply, len(batch))
		s.Extend(t.Context(), time.Now(), batch, func(i int, r server.Reply) { got[i] = r })
		done(t, got[0])
		failed(t, got[1])
		done(t, got[2])
	})
}
