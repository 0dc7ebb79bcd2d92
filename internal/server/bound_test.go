package server_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// verbs are all that can be asked of a server.
var verbs = map[string]func(context.Context, *server.Server, *hold) error{
	"acquire": func(ctx context.Context, s *server.Server, q *hold) error { return q.claim(s).Try(ctx, q.try()).Err },
	"plain": func(ctx context.Context, s *server.Server, q *hold) error {
		t := q.try()
		t.Plain = true
		return q.claim(s).Try(ctx, t).Err
	},
	"release": func(ctx context.Context, s *server.Server, q *hold) error {
		return s.Foreign(q.lock()).Release(ctx, time.Now(), time.Time{}).Err
	},
	"raise": func(ctx context.Context, s *server.Server, q *hold) error {
		l := q.lock()
		return s.Raise(ctx, &l, 1, l.Timeout).Err
	},
	"extend": func(ctx context.Context, s *server.Server, q *hold) error {
		return extendIn(ctx, s, q, q.TTL)
	},
	"run": func(ctx context.Context, s *server.Server, q *hold) error {
		return s.Run(ctx, q.Timeout, q.Key, func(ses *server.Session) error {
			_, err := ses.Do("GET", q.Key)
			return err
		})
	},
}

// A snare is a pool that hangs somewhere, until it is opened.
type snare struct {
	*redis.Pool
	get, do, giveBack atomic.Bool

	open   chan struct{}
	inside atomic.Int32 // calls that hang
	worst  atomic.Int32
}

func (p *snare) hang() {
	if n := p.inside.Add(1); n > p.worst.Load() {
		p.worst.Store(n)
	}
	<-p.open
	p.inside.Add(-1)
}

func (p *snare) Get() redis.Conn {
	if p.get.Load() {
		p.hang()
	}
	return &snaredConn{p.Pool.Get(), p}
}

// GetContext is not that of the pool, which is none of ours.
func (p *snare) GetContext(context.Context) (redis.Conn, error) { return p.Get(), nil }

type snaredConn struct {
	redis.Conn
	snare *snare
}

func (c *snaredConn) stop() {
	if c.snare.do.Load() {
		c.snare.hang()
	}
}

func (c *snaredConn) Do(name string, args ...any) (any, error) {
	c.stop()
	return c.Conn.Do(name, args...)
}

func (c *snaredConn) Receive() (any, error) {
	c.stop()
	return c.Conn.Receive()
}

func (c *snaredConn) Close() error {
	if c.snare.giveBack.Load() {
		c.snare.hang()
	}
	return c.Conn.Close()
}

// ensnared runs test in virtual time for each way of hanging and each verb. Before, all is well.
func ensnared(t *testing.T, test func(t *testing.T, s *server.Server, call func(context.Context, *hold) error)) {
	for how, set := range map[string]func(*snare){
		"check-out": func(p *snare) { p.get.Store(true) },
		"command":   func(p *snare) { p.do.Store(true) },
		"give back": func(p *snare) { p.giveBack.Store(true) },
	} {
		for name, verb := range verbs {
			if how == "give back" && (name == "extend" || name == "run") {
				continue // the outcome is known and told by then
			}
			t.Run(how+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					_, pool := redistest.Virtual(t)
					p := &snare{Pool: pool, open: make(chan struct{})}
					s := open(t, p)
					warm := request("warm")
					done(t, acquire(s, warm))
					done(t, release(s, warm))
					set(p)
					test(t, s, func(ctx context.Context, q *hold) error { return verb(ctx, s, q) })
					p.get.Store(false)
					p.do.Store(false)
					p.giveBack.Store(false)
					close(p.open)
					time.Sleep(5 * time.Minute)
				})
			})
		}
	}
}

func TestEveryOperationEndsWithinItsBoundWhateverThePoolDoes(t *testing.T) {
	t.Parallel()
	ensnared(t, func(t *testing.T, _ *server.Server, call func(context.Context, *hold) error) {
		for range 3 {
			began := time.Now()
			err := call(context.Background(), request("k"))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.True(t, server.TimedOut(err), "%v", err)
			assert.Equal(t, request("").Timeout, time.Since(began))
		}
	})
}

func TestEveryOperationEndsWithTheContextOfItsCaller(t *testing.T) {
	t.Parallel()
	ensnared(t, func(t *testing.T, _ *server.Server, call func(context.Context, *hold) error) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(10*time.Millisecond, cancel)
		began := time.Now()
		err := call(ctx, request("k"))
		require.ErrorIs(t, err, context.Canceled)
		assert.False(t, server.TimedOut(err), "%v", err)
		assert.Equal(t, 10*time.Millisecond, time.Since(began))

		ctx, cancel = context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		began = time.Now()
		err = call(ctx, request("k"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.False(t, server.TimedOut(err), "the caller's time was over, not the server's: %v", err)
		assert.Equal(t, 10*time.Millisecond, time.Since(began))

		require.ErrorIs(t, call(ctx, request("k")), context.DeadlineExceeded)
		assert.Equal(t, 10*time.Millisecond, time.Since(began), "the ctx had ended already")
	})
}

func TestOperationsThatAreStuckAreFew(t *testing.T) {
	t.Parallel()
	for _, callers := range []int{1, 100} {
		synctest.Test(t, func(t *testing.T) {
			_, pool := redistest.Virtual(t)
			p := &snare{Pool: pool, open: make(chan struct{})}
			p.get.Store(true)
			s := open(t, p)
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for range 200 {
						q := request("k")
						q.Timeout = 50 * time.Millisecond
						began := time.Now()
						failed(t, acquire(s, q))
						assert.LessOrEqual(t, time.Since(began), q.Timeout)
					}
				})
			}
			all.Wait()
			assert.LessOrEqual(t, p.worst.Load(), int32(16), "%d callers", callers)
			close(p.open)
			time.Sleep(time.Minute)
			done(t, acquire(s, request("k")))
		})
	}
}

func TestManyMayRunOnAServerThatAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		b := redistest.NewBetween(pool)
		s := open(t, b)
		var running, worst atomic.Int32
		b.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
			if n := running.Add(1); n > worst.Load() {
				worst.Store(n)
			}
			defer running.Add(-1)
			time.Sleep(time.Millisecond)
			return run()
		})
		var all sync.WaitGroup
		for range 300 {
			all.Go(func() {
				for range 4 {
					done(t, acquire(s, request(request("").Token)))
				}
			})
		}
		all.Wait()
		assert.Greater(t, worst.Load(), int32(200))
	})
}

// A reply that no caller waited for any more was a win.
func TestALateWinIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
			warm := request("k")
			done(t, acquire(s, warm))
			done(t, release(s, warm))
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(10*time.Millisecond, cancel)
			q := request("k")
			var taken atomic.Bool
			b.Set(func(run func() (any, error), command string, _ []any) (any, error) {
				b.Set(func(run func() (any, error), command string, _ []any) (any, error) {
					if command == "EVALSHA" && !taken.Load() {
						return nil, redistest.ErrCut // the first undos don't get through
					}
					return run()
				})
				time.Sleep(q.Timeout / 2)
				reply, err := run()
				taken.Store(m.Exists("k"))
				return reply, err
			})
			q.Plain = plain
			c := q.claim(s)
			got := c.Try(ctx, q.try())
			c.ReleaseLater(time.Time{})
			failed(t, got)
			require.ErrorIs(t, got.Err, context.Canceled)
			assert.NotNil(t, c.Away(), "it may still be executed")
			time.Sleep(q.Timeout)
			synctest.Wait()
			assert.True(t, taken.Load(), "plain %v: nothing was tried", plain)
			assert.False(t, m.Exists("k"), "plain %v: a lock that nobody owns", plain)
		})
	}
}

func TestATryThatWasNotSentInTimeNeverIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		b := redistest.NewBetween(pool)
		s := open(t, slowPool{b, time.Minute})
		q := request("k")
		var c counter
		b.Set(c.count)
		failed(t, acquire(s, q))
		time.Sleep(5 * time.Minute)
		assert.NotContains(t, c.take(), "EVAL")
	})
}

// A slowPool takes its time for a connection.
type slowPool struct {
	server.Pool
	d time.Duration
}

func (p slowPool) Get() redis.Conn {
	time.Sleep(p.d)
	return p.Pool.Get()
}

func TestAContextShortensTheDeadlineOnTheServer(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		done(t, release(s, q))
		for _, f := range []func(context.Context) error{
			func(ctx context.Context) error { return q.claim(s).Try(ctx, q.try()).Err },
			func(ctx context.Context) error {
				done(t, acquire(s, q))
				holdUp(b, 20*time.Millisecond)
				return extendIn(ctx, s, q, time.Hour)
			},
		} {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			holdUp(b, 20*time.Millisecond)
			require.ErrorIs(t, f(ctx), context.DeadlineExceeded)
			cancel()
			time.Sleep(15 * time.Millisecond)
			synctest.Wait()
			assert.LessOrEqual(t, m.TTL("k"), time.Minute)
		}
	})
}

func TestAnErrorOfTheCallersContextIsNotAnAnswerOfTheServer(t *testing.T) {
	t.Parallel()
	assert.False(t, server.Permanent(context.Canceled))
	assert.False(t, server.TimedOut(context.DeadlineExceeded))
	assert.False(t, server.TimedOut(errors.New("EOF")))
}

func TestWorkersEndByThemselves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		s := server.New(pool) // and no caller closes it
		q := request("k")
		done(t, acquire(s, q))
		done(t, release(s, q))
		time.Sleep(5 * time.Second)
	})
}

// extendIn extends a single lease.
func extendIn(ctx context.Context, s *server.Server, q *hold, ttl time.Duration) (err error) {
	batch := []server.Extension{{Claim: s.Foreign(q.lock()), TTL: ttl}}
	s.Extend(ctx, time.Now(), batch, func(_ int, r server.Reply) { err = r.Err })
	return err
}
