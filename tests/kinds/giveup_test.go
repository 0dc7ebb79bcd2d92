package kinds_test

import (
	"context"
	"fmt"
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

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// These tests show what a call that gives up during its try leaves to the next call in line.

// oneAfterTheOther starts n calls at intervals of every. Each gives up after while.
func oneAfterTheOther(ctx context.Context, n int, every, while time.Duration, acquire func(i int, ctx context.Context)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			time.Sleep(time.Duration(i) * every)
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			time.AfterFunc(while, cancel)
			acquire(i, ctx)
		})
	}
	all.Wait()
}

// distant makes each command over a pool take rtt, and counts the scripts.
func distant(pool *redis.Pool, rtt time.Duration) (far *redistest.Between, scripts *atomic.Int64) {
	far, scripts = redistest.NewBetween(pool), new(atomic.Int64)
	far.Set(func(command redistest.Command) (any, error) {
		if strings.HasPrefix(command.Name, "EVAL") {
			scripts.Add(1)
		}
		time.Sleep(rtt)
		return command.Run()
	})
	return far, scripts
}

// There is never more than one call behind the first, and it comes when the try of the first call has begun.
func TestALineOfTwoThatAreShortOfTimeGetsAFreeLock(t *testing.T) {
	t.Parallel()
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, pool := redistest.Virtual(t)
				far, _ := distant(pool, 120*time.Millisecond)
				call := kind(newClient(t, far, redimutex.WithTTL(time.Minute)))
				got := 0
				var mu sync.Mutex
				oneAfterTheOther(t.Context(), 50, 100*time.Millisecond, 150*time.Millisecond, func(_ int, ctx context.Context) {
					if lease, err := call(ctx); err == nil {
						mu.Lock()
						got++
						mu.Unlock()
						assert.NoError(t, lease.Release(t.Context()))
					}
				})
				assert.Greater(t, got, 10)
			})
		})
	}
}

func TestALineOfCallsThatGiveUpDuringTriesAsksNoMoreOftenThanOneThatWaits(t *testing.T) {
	t.Parallel()
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, pool := redistest.Virtual(t)
				if name != "semaphore" {
					require.NoError(t, server.Set("k", "foreign"))
				} else {
					for range 2 {
						_, err := newClient(t, pool, redimutex.WithTTL(time.Hour)).Semaphore("k", 2).Acquire(t.Context())
						require.NoError(t, err)
					}
				}
				far, scripts := distant(pool, 20*time.Millisecond)
				call := kind(newClient(t, far, redimutex.WithPollInterval(time.Second)))
				oneAfterTheOther(t.Context(), 1000, 10*time.Millisecond, 300*time.Millisecond, func(_ int, ctx context.Context) {
					_, err := call(ctx)
					assert.ErrorIs(t, err, context.Canceled)
				})
				assert.LessOrEqual(t, scripts.Load(), int64(16), "in 10 s")
			})
		})
	}
}

// The inherited try was made for a call that waits for another time before its next try, or that makes no other try.
func TestAWriterThatInheritsATryIsSeenToWait(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]redimutex.Option{
		"of a call that waits for less": {redimutex.WithPollInterval(10 * time.Millisecond)},
		"of a call that tries once":     {redimutex.WithPollInterval(time.Second), redimutex.WithMaxAttempts(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, pool := redistest.Virtual(t)
				other := newClient(t, pool, redimutex.WithTTL(time.Hour)).RWMutex("k")
				reader, err := other.RAcquire(t.Context())
				require.NoError(t, err)
				far, _ := distant(pool, 20*time.Millisecond)
				c := newClient(t, far, redimutex.WithNodeTimeout(200*time.Millisecond))
				begin := func(opts ...redimutex.Option) (waits *call, leave context.CancelFunc) {
					ctx, leave := context.WithCancel(t.Context())
					waits = startWith(t, ctx, c.RWMutex("k", opts...).Acquire)
					synctest.Wait()
					return waits, leave
				}
				_, leave := begin(redimutex.WithPollInterval(200 * time.Millisecond))
				time.Sleep(100 * time.Millisecond) // it has tried
				second, leaveSecond := begin(opts...)
				third, leaveThird := begin(redimutex.WithPollInterval(time.Second))
				far.Set(func(command redistest.Command) (any, error) {
					far.Set(nil)
					reply, err := command.Run()
					leaveSecond()
					synctest.Wait()
					return reply, err
				})
				leave()
				<-second.done
				for range 90 {
					_, err := other.TryRAcquire(t.Context())
					require.ErrorIs(t, err, redimutex.ErrLocked)
					time.Sleep(10 * time.Millisecond)
				}
				leaveThird()
				<-third.done
				release(t, reader)
			})
		})
	}
}

func TestCallsOfOtherTermsThatGiveUpDuringTriesLeaveAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		require.NoError(t, server.Set("k", "foreign"))
		far, scripts := distant(pool, 120*time.Millisecond)
		c := newClient(t, far, redimutex.WithPollInterval(time.Second))
		all := []*redimutex.Mutex{c.Mutex("k"), c.Mutex("k", redimutex.WithOwner("another"))}
		oneAfterTheOther(t.Context(), 1000, 10*time.Millisecond, 100*time.Millisecond, func(i int, ctx context.Context) {
			assert.ErrorIs(t, all[i%2].LockContext(ctx, 0), context.Canceled)
		})
		assert.LessOrEqual(t, scripts.Load(), int64(50), "in 10 s, each try and its release")
	})
}

// Otherwise a hanging server would keep the last try of each line for a node timeout.
func TestATryThatNoCallWaitsForIsCut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := s.Proxy()
	pool := redimutex.NewPoolAt("tcp", proxy.Addr())
	t.Cleanup(func() { pool.Close() })
	c := newClient(t, pool, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(10*time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const lines = 8
	for i := range lines {
		key := fmt.Sprint(i)
		s.Do("SET", key, "foreign")
		for range 2 {
			startWith(t, ctx, c.Mutex(key).Acquire)
		}
	}
	locktest.WaitInLine(t, c, 2*lines)
	proxy.Hold(redistest.Replies)
	t.Cleanup(func() { proxy.Release() })
	inUse := func() int { return pool.Stats().ActiveCount - pool.Stats().IdleCount }
	redistest.Wait(t, "a try for each line", func() bool { return inUse() == lines })
	cancel()
	redistest.Wait(t, "the releases alone", func() bool { return inUse() <= 2 })
}

// A hooked is a context that calls a function when its Err is called for the second time. Then its call has the turn.
type hooked struct {
	context.Context
	looks atomic.Int64
	call  func()
}

func (h *hooked) Err() error {
	if h.looks.Add(1) == 2 {
		h.call()
	}
	return h.Context.Err()
}

// Another call comes to stand behind it before its try, which is the first of the line. So nothing is known about the key.
func TestACallWhoseTryGoesOnForOthersSaysThatNoServerAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		silent, _ := distant(pool, time.Hour)
		c := newClient(t, silent)
		limited, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		ctx, leave := context.WithCancel(t.Context())
		waiting := 0
		first := startWith(t, &hooked{Context: limited, call: func() {
			startWith(t, ctx, c.Mutex("k").Acquire)
			synctest.Wait()
			waiting = c.Stats().Waiting
		}}, c.Mutex("k").Acquire)
		<-first.done
		assert.Equal(t, 1, waiting)
		assert.ErrorIs(t, first.err, context.DeadlineExceeded)
		assert.ErrorIs(t, first.err, redimutex.ErrUnavailable)
		silent.Set(nil)
		leave()
		time.Sleep(2 * time.Hour) // until the last command has ended
	})
}

// inherited makes a call give up just as its try wins. It returns the hold of the next call, which finds the win after later.
func inherited(t *testing.T, server *miniredis.Miniredis, pool *redis.Pool, later time.Duration, opts ...redimutex.Option) *redimutex.Lease {
	t.Helper()
	require.NoError(t, server.Set("k", "foreign"))
	near := redistest.NewBetween(pool)
	ctx, cancel := context.WithCancel(t.Context())
	c := newClient(t, near, append(opts, redimutex.WithTrace(&redimutex.Trace{Attempt: func(redimutex.Event) {
		if ctx.Err() != nil {
			time.Sleep(later) // before it passes the turn on
		}
	}}))...)
	first := startWith(t, ctx, c.Mutex("k").Acquire)
	synctest.Wait()
	second := start(t, c.Mutex("k").Acquire)
	synctest.Wait()
	server.Del("k")
	near.Set(func(command redistest.Command) (any, error) {
		near.Set(nil)
		reply, err := command.Run()
		cancel()
		return reply, err
	})
	<-first.done
	<-second.done
	return second.get(t)
}

// As after a pause of the process. When a call gets the lock, at least half of the validity has to be left.
func TestAWonLockThatLayTooLongIsAskedForOnceMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		lease := inherited(t, server, pool, 900*time.Millisecond, redimutex.WithTTL(time.Second))
		assert.Greater(t, time.Until(lease.Until()), 500*time.Millisecond)
		release(t, lease)
	})
}

// The minimum hold does not count from the server's grant, which was for a call that has left since.
func TestAnInheritedLockIsKeptForItsShortestHoldFromWhenItsCallHasIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		release(t, inherited(t, server, pool, 600*time.Millisecond, redimutex.WithMinHold(time.Second)))
		assert.InDelta(t, time.Second, server.TTL("k"), float64(10*time.Millisecond))
	})
}

// The server is slow to answer the try that is cut, and has taken the lock for it.
func TestATryThatWasCutIsNotInTheWayOfTheNextCall(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := s.Proxy()
	c := newClient(t, redimutex.NewPoolAt("tcp", proxy.Addr()), append(long, redimutex.WithMultiplexing(1))...)
	m, other := c.Mutex("k"), newClient(t, s.Pool(), long...).Mutex("k")
	for range 10 {
		other.Lock()
		leaves, leave := context.WithCancel(t.Context())
		first := startWith(t, leaves, m.Acquire)
		locktest.WaitInLine(t, c, 1)
		ctx, cancel := context.WithCancel(t.Context())
		second := startWith(t, ctx, m.Acquire)
		locktest.WaitInLine(t, c, 2)
		leave()
		<-first.done
		other.Unlock()
		proxy.Hold(redistest.Replies)
		silent := time.Now()
		redistest.Wait(t, "the lock to be taken", func() bool { return s.Exists("k") })
		redistest.Wait(t, "a long silence", func() bool { return time.Since(silent) > 100*time.Millisecond })
		cancel()
		<-second.done
		time.AfterFunc(time.Millisecond, func() { proxy.Release() })
		if second.err == nil { // the answer came first
			release(t, second.lease)
		}
		require.NoError(t, m.TryLockContext(t.Context()))
		m.Unlock()
	}
}
