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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// The goroutines of one process that want a key stand in line: what they get from those in front, and what is reported.

// long are options of leases that outlast any stall of a busy machine.
var long = []redimutex.Option{redimutex.WithTTL(10 * time.Minute), redimutex.WithNodeTimeout(20 * time.Second)}

// behind makes one goroutine wait for a locked key and then give up, while acquire waits behind it. Then behind frees the key,
// and returns how long acquire takes from then on.
func behind(t *testing.T, gives redimutex.Option, acquire func(c *redimutex.Client) locktest.Acquire) (took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		require.NoError(t, server.Set("k", "foreign"))
		c := newClient(t, pool)
		ctx, leave := context.WithCancel(t.Context())
		first := startWith(t, ctx, c.Mutex("k", gives).Acquire)
		synctest.Wait()
		second := start(t, acquire(c))
		synctest.Wait()
		assert.Equal(t, 2, c.Stats().Waiting)
		leave()
		synctest.Wait()
		assert.ErrorIs(t, first.err, context.Canceled)
		assert.Equal(t, 1, c.Stats().Waiting, "also one that waits for the rest of a pause")
		server.Del("k")
		began := time.Now()
		<-second.done
		took = time.Since(began)
		release(t, second.get(t))
	})
	return took
}

func TestWhoComesNextInLineWaitsNoLongerThanItsOwnPause(t *testing.T) {
	t.Parallel()
	gives := redimutex.WithPollInterval(time.Hour)
	for name, c := range map[string]struct {
		acquire func(c *redimutex.Client) locktest.Acquire
		most    time.Duration
	}{
		"mutex": {func(c *redimutex.Client) locktest.Acquire {
			return c.Mutex("k").Acquire
		}, 50 * time.Millisecond},
		"writer that polls slowly, too": {func(c *redimutex.Client) locktest.Acquire {
			return c.RWMutex("k", gives).Acquire
		}, time.Second},
		"queue": {func(c *redimutex.Client) locktest.Acquire {
			return c.Mutex("k", gives, redimutex.WithQueue()).Acquire
		}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) { assert.LessOrEqual(t, behind(t, gives, c.acquire), c.most) })
	}
}

func TestCallersThatGiveUpOneAfterTheOtherAskNoMoreOftenThanOneThatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		require.NoError(t, server.Set("k", "foreign"))
		var tries atomic.Int64
		m := newClient(t, pool, redimutex.WithPollInterval(time.Second), redimutex.WithTrace(&redimutex.Trace{
			Attempt: func(redimutex.Event) { tries.Add(1) },
		})).Mutex("k")
		var all sync.WaitGroup
		for i := range 100 { // for 10 s; at least one call always stands behind the first
			all.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				assert.ErrorIs(t, m.LockContext(t.Context(), 250*time.Millisecond), context.DeadlineExceeded)
			})
		}
		all.Wait()
		assert.LessOrEqual(t, tries.Load(), int64(12))
	})
}

// Otherwise each first in line would use up its time, have its try cut short, and leave no more time to the next.
func TestALineOfCallsThatAreShortOfTimeGetsAFreeLock(t *testing.T) {
	t.Parallel()
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, pool := redistest.Virtual(t)
				require.NoError(t, server.Set("k", "foreign"))
				far, _ := distant(pool, 100*time.Millisecond)
				call := kind(newClient(t, far, redimutex.WithTTL(time.Minute)))
				var late atomic.Int64 // how many calls got the lock long after it became free
				var all sync.WaitGroup
				began := time.Now()
				for i := range 100 {
					all.Go(func() {
						for time.Sleep(time.Duration(i) * 4 * time.Millisecond); time.Since(began) < 8*time.Second; {
							ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
							if lease, err := call(ctx); err == nil {
								if time.Since(began) > 5*time.Second {
									late.Add(1)
								}
								assert.NoError(t, lease.Release(t.Context()))
							}
							cancel()
						}
					})
				}
				time.Sleep(3 * time.Second)
				server.Del("k")
				all.Wait()
				assert.Greater(t, late.Load(), int64(5))
			})
		})
	}
}

// An ending is a context whose Err reports the end before Done does.
type ending struct {
	context.Context
	over atomic.Bool
}

func (e *ending) Err() error {
	if e.over.Load() {
		return context.Canceled
	}
	return e.Context.Err()
}

// Its try is not cut. So the next call in line gets the lock, whether the end of ctx or the answer is noticed first.
func TestTheLockOfACallThatEndsWithItsTryGoesToTheNextInLine(t *testing.T) {
	t.Parallel()
	for _, answerFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server, pool := redistest.Virtual(t)
			require.NoError(t, server.Set("k", "foreign"))
			near := redistest.NewBetween(pool)
			c := newClient(t, near)
			parent, cancel := context.WithCancel(t.Context())
			ctx := &ending{Context: parent}
			first := startWith(t, ctx, c.Mutex("k").Acquire)
			synctest.Wait()
			second := start(t, c.Mutex("k").Acquire)
			synctest.Wait()
			server.Del("k")
			tries := 0
			near.Set(func(command redistest.Command) (any, error) {
				tries++
				reply, err := command.Run()
				if ctx.over.Store(true); answerFirst {
					time.AfterFunc(time.Millisecond, cancel)
				} else {
					cancel()
				}
				return reply, err
			})
			<-first.done
			assert.ErrorIs(t, first.err, context.Canceled)
			began := time.Now()
			<-second.done
			assert.Less(t, time.Since(began), time.Millisecond)
			assert.Equal(t, 1, tries)
			release(t, second.get(t))
		})
	}
}

// The cut try may have won the lock. If later calls that are cut tried its token, each would prolong a lock that no call has.
func TestTheTokenOfATryThatWasCutIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		require.NoError(t, server.Set("k", "foreign"))
		between := redistest.NewBetween(pool)
		c := newClient(t, between)
		ctx, cancel := context.WithCancel(t.Context())
		first := startWith(t, ctx, c.Mutex("k").Acquire)
		synctest.Wait()
		look, let := make(chan string, 1), make(chan struct{})
		between.Set(func(command redistest.Command) (any, error) {
			between.Set(nil)
			look <- fmt.Sprint(command.Args[3])
			<-let
			return command.Run()
		})
		token := <-look // no other goroutine waits yet
		second := start(t, c.Mutex("k").Acquire)
		synctest.Wait()
		cancel()
		<-first.done
		close(let)
		server.Del("k")
		<-second.done
		assert.NotEqual(t, token, second.get(t).Token())
		release(t, second.get(t))
	})
}

// Each try carries one token for each reader in line.
func TestReadersThatAreCancelledOneAfterTheOtherCostFewCommands(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]redimutex.Option{nil, {redimutex.WithQueue()}} {
		synctest.Test(t, func(t *testing.T) {
			server, pool := redistest.Virtual(t)
			require.NoError(t, server.Set("k", "foreign"))
			var scripts atomic.Int64
			near := redistest.NewBetween(pool)
			near.Set(func(command redistest.Command) (any, error) {
				time.Sleep(time.Millisecond)
				if strings.HasPrefix(command.Name, "EVAL") {
					scripts.Add(1)
				}
				return command.Run()
			})
			m := newClient(t, near, opts...).RWMutex("k")
			var all sync.WaitGroup
			began := time.Now()
			for i := range 200 {
				all.Go(func() {
					for time.Sleep(time.Duration(i) * time.Millisecond); time.Since(began) < 5*time.Second; {
						ctx, cancel := context.WithCancel(t.Context())
						time.AfterFunc(time.Duration(200+i)*time.Millisecond, cancel)
						assert.ErrorIs(t, m.RLockContext(ctx, 0), context.Canceled)
					}
				})
			}
			all.Wait()
			assert.Less(t, scripts.Load(), int64(1000))
		})
	}
}

func TestTheTimeInLineIsTimeThatWasWaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		c := newClient(t, pool)
		m := c.Mutex("k")
		m.Lock()
		second := start(t, c.Mutex("k").Acquire)
		time.Sleep(3 * time.Second)
		m.Unlock()
		<-second.done
		assert.Equal(t, 3*time.Second, c.Stats().WaitTime)
		release(t, second.get(t))
	})
}

// gated makes each command over a Between send a channel to asks, and wait until the test closes that channel.
func gated(pool *redistest.Between) (asks chan chan struct{}) {
	asks = make(chan chan struct{}, 100)
	pool.Set(func(command redistest.Command) (any, error) {
		let := make(chan struct{})
		asks <- let
		<-let
		return command.Run()
	})
	return asks
}

// The servers have refused a call. The next in line has just begun its own first try, and a single try must not overtake it.
// But if it is not known yet whether a call has to wait, a single try runs beside the first try of that call.
func TestASingleTryForAPermitDoesNotOvertakeOneThatWaits(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprint(refused), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			pool := redistest.NewBetween(s.Pool())
			c := newClient(t, pool, long...)
			sem, other := c.Semaphore("k", 2), newClient(t, s.Pool(), long...).Semaphore("k", 2)
			var theirs []*redimutex.Lease
			for range 2 {
				l, err := other.Acquire(t.Context())
				require.NoError(t, err)
				theirs = append(theirs, l)
			}
			if !refused {
				asks := gated(pool)
				first := start(t, sem.Acquire)
				let := redistest.Receive(t, "the first try", asks)
				second := start(t, sem.Acquire)
				locktest.WaitInLine(t, c, 1)
				pool.Set(nil)
				for _, l := range theirs {
					release(t, l)
				}
				l, err := sem.TryAcquire(t.Context())
				require.NoError(t, err)
				release(t, l)
				close(let)
				release(t, first.get(t))
				release(t, second.get(t))
				return
			}
			first := start(t, sem.Acquire)
			locktest.WaitInLine(t, c, 1)
			second := start(t, sem.Acquire)
			locktest.WaitInLine(t, c, 2)
			asks := gated(pool)
			let := redistest.Receive(t, "the next try of the first", asks)
			for _, l := range theirs {
				release(t, l)
			}
			close(let)
			held := redistest.Receive(t, "the first try of the second", asks)
			pool.Set(nil)
			_, err := sem.TryAcquire(t.Context())
			assert.ErrorIs(t, err, redimutex.ErrLocked)
			close(held)
			release(t, first.get(t))
			release(t, second.get(t))
		})
	}
}

func TestSingleTriesGoBesideEachOtherAgainWhenWhoWaitedHasGone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := redistest.NewBetween(s.Pool())
	c := newClient(t, pool, append(long, redimutex.WithPollInterval(time.Hour))...)
	sem, other := c.Semaphore("k", 3), newClient(t, s.Pool(), long...).Semaphore("k", 3)
	keep, err := sem.Acquire(t.Context()) // while this is held, the process remembers what it knows of the key
	require.NoError(t, err)
	var theirs []*redimutex.Lease
	for range 2 {
		l, err := other.Acquire(t.Context())
		require.NoError(t, err)
		theirs = append(theirs, l)
	}
	ctx, leave := context.WithCancel(t.Context())
	waiter := startWith(t, ctx, sem.Acquire)
	locktest.WaitInLine(t, c, 1)
	leave()
	redistest.Wait(t, "the end of the wait", waiter.over)
	require.ErrorIs(t, waiter.err, context.Canceled)
	for _, l := range theirs {
		release(t, l)
	}
	asks := gated(pool)
	tries := []*call{start(t, sem.TryAcquire), start(t, sem.TryAcquire)}
	lets := []chan struct{}{redistest.Receive(t, "a try", asks), redistest.Receive(t, "a try beside it", asks)}
	pool.Set(nil)
	for i, let := range lets {
		close(let)
		defer func() { release(t, tries[i].get(t)) }()
	}
	release(t, keep)
}

// A single try gets its "locked" after the call beside it was granted. The hold of that call goes on.
func TestWhatASingleTryWasToldIsNotTheReasonOfALaterCall(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := redistest.NewBetween(s.Pool())
	sem := newClient(t, pool, long...).Semaphore("k", 2)
	keep, err := sem.Acquire(t.Context())
	require.NoError(t, err)
	executed := make(chan chan struct{}, 10)
	pool.Set(func(command redistest.Command) (any, error) {
		r, err := command.Run()
		let := make(chan struct{})
		executed <- let
		<-let
		return r, err
	})
	call := start(t, sem.Acquire)
	first := redistest.Receive(t, "the second permit, not known yet", executed)
	try := start(t, sem.TryAcquire)
	second := redistest.Receive(t, "the refusal of the try", executed)
	pool.Set(nil)
	close(first)
	held := call.get(t)
	close(second)
	redistest.Wait(t, "the try is over", try.over)
	require.ErrorIs(t, try.err, redimutex.ErrLocked)
	release(t, held)
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = sem.Acquire(ctx)
	assert.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.NotErrorIs(t, err, redimutex.ErrLocked)
	s.Resume()
	release(t, keep)
}

func TestWhatTheProcessKeepsForReadersIsNotInTheWayOfItsOwnCalls(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var mu sync.Mutex
	var tries []int
	c := newClient(t, s.Pool(), append(long, redimutex.WithTrace(&redimutex.Trace{Acquired: func(e redimutex.Event) {
		mu.Lock()
		defer mu.Unlock()
		tries = append(tries, e.Attempt)
	}}))...)
	m := c.RWMutex("k", redimutex.WithLeaseReuse(time.Minute))
	once := c.Mutex("k", redimutex.WithMaxAttempts(1))
	for range 2 {
		m.Lock()
		m.Unlock()
		m.RLock()
		m.RUnlock()
		once.Lock()
		once.Unlock()
	}
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, []int{1, 1, 1, 1, 1, 1}, tries, "each at its first try")
}

// Locks looks at the leases in the order of their renewals. That is neither the order of their ages nor that of their ends.
func TestLocksTellsOfTheOldestReaderAndOfTheFirstToEnd(t *testing.T) {
	t.Parallel()
	c := newClient(t, redistest.Start(t).Pool())
	var all []*redimutex.Lease
	for _, opts := range [][]redimutex.Option{
		{redimutex.WithTTL(2 * time.Hour)}, {redimutex.WithTTL(time.Hour)}, {redimutex.WithTTL(30 * time.Minute), redimutex.WithoutRenewal()},
	} {
		l, err := c.RWMutex("k", append(opts, redimutex.WithOwner(fmt.Sprint(len(all))))...).RAcquire(t.Context())
		require.NoError(t, err)
		all = append(all, l)
	}
	info := c.Locks()[0]
	assert.Equal(t, 3, info.Holds)
	assert.Equal(t, "0", info.Owner)
	assert.Equal(t, all[2].Until(), info.Until)
	assert.Equal(t, 30*time.Minute, info.TTL)
	for _, l := range all {
		release(t, l)
	}
}

func TestReadersThatAreKeptAreHeldAndIdleOnlyWhereNoOtherReads(t *testing.T) {
	t.Parallel()
	c := newClient(t, redistest.Start(t).Pool(), redimutex.WithTTL(time.Hour))
	m := c.RWMutex("k", redimutex.WithLeaseReuse(time.Minute))
	m.RLock()
	m.RUnlock()
	info := c.Locks()[0]
	assert.True(t, info.Idle)
	assert.Equal(t, 1, info.Holds)
	for _, ttl := range []time.Duration{2 * time.Hour, 30 * time.Minute} { // one is renewed after the idle lease, one before it
		l, err := c.RWMutex("k", redimutex.WithTTL(ttl)).RAcquire(t.Context())
		require.NoError(t, err)
		m.RLock() // the idle lease was released because of the other terms
		m.RUnlock()
		info = c.Locks()[0]
		assert.False(t, info.Idle, "TTL %v", ttl)
		assert.Equal(t, 2, info.Holds)
		release(t, l)
	}
}
