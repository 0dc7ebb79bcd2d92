package redimutex_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// newSemaphore returns a Semaphore with a Client of its own, as in another process.
func newSemaphore(t testing.TB, s *redistest.Server, permits int, opts ...redimutex.Option) *redimutex.Semaphore {
	t.Helper()
	return newClient(t, s.Pool(), opts...).Semaphore("s", permits)
}

func inUse(t testing.TB, s *redimutex.Semaphore) int {
	t.Helper()
	n, err := s.InUse(t.Context())
	require.NoError(t, err)
	return n
}

func TestASemaphoreLetsSoManyInAsItHasPermits(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	one, other := newSemaphore(t, s, 3), newSemaphore(t, s, 3)
	assert.Equal(t, "s", one.Key())
	assert.Equal(t, 3, one.Permits())
	assert.Zero(t, inUse(t, one))
	var held []*redimutex.Lease
	for i, from := range []*redimutex.Semaphore{one, other, one} {
		l, err := from.TryAcquire(t.Context())
		require.NoError(t, err)
		assert.NoError(t, l.Err())
		assert.Zero(t, l.Fence())
		held = append(held, l)
		assert.Equal(t, i+1, inUse(t, other))
	}
	for _, from := range []*redimutex.Semaphore{one, other} {
		_, err := from.TryAcquire(t.Context())
		require.ErrorIs(t, err, redimutex.ErrLocked)
	}
	require.NoError(t, held[1].Release(t.Context()))
	assert.ErrorIs(t, held[1].Release(t.Context()), redimutex.ErrUnlocked)
	assert.Equal(t, 2, inUse(t, one), "a second release gives nothing back")
	l, err := one.Acquire(t.Context())
	require.NoError(t, err)
	for _, l := range []*redimutex.Lease{l, held[0], held[2]} {
		require.NoError(t, l.Release(t.Context()))
		assert.ErrorIs(t, l.Err(), redimutex.ErrUnlocked)
	}
	assert.Empty(t, s.Keys())
}

// tryTogether calls try in many goroutines at once, over a server so far away that the tries overlap. It returns how many of
// them succeeded.
func tryTogether(t testing.TB, goroutines int, try func() error) int {
	t.Helper()
	var in atomic.Int32
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			switch err := try(); {
			case err == nil:
				in.Add(1)
			default:
				assert.ErrorIs(t, err, redimutex.ErrLocked)
			}
		})
	}
	all.Wait()
	return int(in.Load())
}

func TestTriesOfOneProcessAtOnceGetAllPermitsThatAreFree(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	far := newClient(t, s.Far(10*time.Millisecond).Pool(), redimutex.WithTTL(time.Minute))
	for _, permits := range []int{20, 5} {
		sem := far.Semaphore(fmt.Sprint("s", permits), permits)
		in := tryTogether(t, 10, func() error {
			_, err := sem.TryAcquire(t.Context())
			return err
		})
		assert.Equal(t, min(permits, 10), in)
		assert.Equal(t, in, inUse(t, sem))
	}
}

func TestATryDoesNotOvertakeAWaiterOfItsProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	sem := newSemaphore(t, s, 1, redimutex.WithPollInterval(5*time.Second))
	l, err := sem.Acquire(t.Context())
	require.NoError(t, err)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		_, err := sem.Acquire(ctx)
		assert.ErrorIs(t, err, context.Canceled)
	}()
	locktest.WaitInLine(t, sem.Client(), 1)
	require.NoError(t, l.Release(t.Context()))
	_, err = sem.TryAcquire(t.Context())
	assert.ErrorIs(t, err, redimutex.ErrLocked)
	cancel()
	<-done
	_, err = sem.TryAcquire(t.Context())
	assert.NoError(t, err)
}

// The second waiter has not asked the server yet when its turn comes. It waits for the rest of the pause of the first.
func TestATryDoesNotOvertakeTheWaiterBehindOneThatHasGivenUp(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]func(c *redimutex.Client) (excludes, waits, tries locktest.Acquire){
		"permits": func(c *redimutex.Client) (excludes, waits, tries locktest.Acquire) {
			s := c.Semaphore("k", 1)
			return s.Acquire, s.Acquire, s.TryAcquire
		},
		"readers": func(c *redimutex.Client) (excludes, waits, tries locktest.Acquire) {
			m := c.RWMutex("k")
			return m.Acquire, m.RAcquire, m.TryRAcquire
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			opts := []redimutex.Option{redimutex.WithTTL(time.Minute), patient, redimutex.WithPollInterval(time.Hour)}
			elsewhere, _, _ := kind(newClient(t, s.Pool(), opts...))
			c := newClient(t, s.Pool(), opts...)
			_, wait, try := kind(c)
			l, err := elsewhere(t.Context())
			require.NoError(t, err)
			waiter := func() (giveUp func()) {
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, err := wait(ctx)
					assert.ErrorIs(t, err, context.Canceled)
				}()
				return func() {
					cancel()
					<-done
				}
			}
			first := waiter()
			locktest.WaitInLine(t, c, 1)
			second := waiter()
			locktest.WaitInLine(t, c, 2)
			first()
			require.NoError(t, l.Release(t.Context()))
			_, err = try(t.Context())
			require.ErrorIs(t, err, redimutex.ErrLocked)
			second()
			_, err = try(t.Context())
			assert.NoError(t, err)
		})
	}
}

// The process holds a permit all the time, so it keeps what it knows of the key.
func TestWhatATryWasToldIsNotTheReasonOfALaterOne(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	mine := newClient(t, s.Pool()).Semaphore("k", 2)
	other := newClient(t, s.Pool()).Semaphore("k", 2)
	l, err := mine.Acquire(t.Context())
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Release(t.Context())) }()
	second, err := other.Acquire(t.Context())
	require.NoError(t, err)
	try := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := mine.Acquire(ctx)
		return err
	}
	redistest.Wait(t, "an answer in time", func() bool { return errors.Is(try(), redimutex.ErrLocked) })
	require.NoError(t, second.Release(t.Context()))
	s.Pause()
	defer s.Resume()
	err = try()
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.NotErrorIs(t, err, redimutex.ErrLocked)
}

// The pause between tries concerns waiters, and the only waiter has left.
func TestACallDoesNotSitOutThePauseOfOneThatHasGivenUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	mine := newSemaphore(t, s, 2, redimutex.WithPollInterval(time.Hour))
	l, err := mine.Acquire(t.Context())
	require.NoError(t, err)
	second, err := newSemaphore(t, s, 2).Acquire(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := mine.Acquire(ctx)
		gaveUp <- err
	}()
	locktest.WaitInLine(t, mine.Client(), 1)
	cancel()
	require.ErrorIs(t, redistest.Receive(t, "the end of the wait", gaveUp), context.Canceled)
	require.NoError(t, second.Release(t.Context()))
	got := make(chan error, 1)
	go func() {
		third, err := mine.Acquire(t.Context())
		if err == nil {
			err = third.Release(t.Context())
		}
		got <- err
	}()
	require.NoError(t, redistest.Receive(t, "the permit that is free", got))
	require.NoError(t, l.Release(t.Context()))
}

func TestNoMoreThanTheLimitAreEverIn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const permits, clients, goroutines, rounds = 3, 4, 4, 6
	for _, opts := range [][]redimutex.Option{
		{redimutex.WithPollInterval(2 * time.Millisecond)},
		{redimutex.WithQueue()},
	} {
		var inside, most, done atomic.Int64
		var all sync.WaitGroup
		for range clients {
			sem := newSemaphore(t, s, permits, opts...)
			for range goroutines {
				all.Go(func() {
					for range rounds {
						assert.NoError(t, sem.Do(t.Context(), func(context.Context) error {
							n := inside.Add(1)
							for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
							}
							time.Sleep(time.Millisecond)
							inside.Add(-1)
							done.Add(1)
							return nil
						}))
					}
				})
			}
		}
		all.Wait()
		assert.EqualValues(t, clients*goroutines*rounds, done.Load())
		assert.LessOrEqual(t, most.Load(), int64(permits))
		assert.Greater(t, most.Load(), int64(1), "they are in together")
		redistest.Wait(t, "nothing is left", func() bool { return len(s.Keys()) == 0 })
	}
}

func TestAPermitIsRenewedAndThatOfACrashedHolderComesBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const ttl = 4 * time.Second
	crashed := newSemaphore(t, s, 2, redimutex.WithTTL(ttl), redimutex.WithoutRenewal())
	living := newSemaphore(t, s, 2, redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(2*time.Second))
	dead, err := crashed.Acquire(t.Context())
	require.NoError(t, err)
	alive, err := living.Acquire(t.Context())
	require.NoError(t, err)
	began := time.Now()
	l, err := newSemaphore(t, s, 2, redimutex.WithPollInterval(10*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	assert.Greater(t, time.Since(began), ttl/2, "the permit was held until it expired")
	require.ErrorIs(t, dead.Err(), redimutex.ErrLost)
	assert.NoError(t, alive.Err(), "a renewed permit outlives its TTL")
	assert.Equal(t, 2, inUse(t, living))
	assert.ErrorIs(t, dead.Release(t.Context()), redimutex.ErrLost)
	assert.NoError(t, alive.Err(), "the release of a permit that is gone takes no other")
	assert.Equal(t, 2, inUse(t, living))
	require.NoError(t, alive.Release(t.Context()))
	require.NoError(t, l.Release(t.Context()))
	assert.Empty(t, s.Keys())
}

func TestAPermitThatIsTakenAwayIsLostAndTheOthersStay(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	sem := newSemaphore(t, s, 3, redimutex.WithTTL(3*time.Second), redimutex.WithNodeTimeout(time.Second))
	var held []*redimutex.Lease
	for range 3 {
		l, err := sem.Acquire(t.Context())
		require.NoError(t, err)
		held = append(held, l)
	}
	s.Do("ZREM", "s", held[0].Token())
	<-held[0].Done()
	var lost *redimutex.LostError
	require.ErrorAs(t, held[0].Err(), &lost)
	assert.Equal(t, redimutex.LostError{Key: "s", Reason: redimutex.Deleted}, *lost)
	s.Do("ZREM", "s", held[1].Token())
	require.ErrorIs(t, held[1].Release(t.Context()), redimutex.ErrLost)
	assert.NoError(t, held[2].Err())
	assert.Equal(t, 1, inUse(t, sem))
	require.NoError(t, held[2].Release(t.Context()))
}

func TestALowerLimitAdmitsNoneUntilEnoughHaveLeft(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	high, low := newSemaphore(t, s, 3), newSemaphore(t, s, 1)
	var held []*redimutex.Lease
	for range 3 {
		l, err := high.TryAcquire(t.Context())
		require.NoError(t, err)
		held = append(held, l)
	}
	assert.Equal(t, 3, inUse(t, low))
	for _, l := range held {
		_, err := low.TryAcquire(t.Context())
		require.ErrorIs(t, err, redimutex.ErrLocked)
		require.NoError(t, l.Release(t.Context()))
	}
	l, err := low.TryAcquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
}

func TestTheDosOfASemaphoreNestAndHaveAPermitEach(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	sem := newSemaphore(t, s, 2)
	require.NoError(t, sem.Do(t.Context(), func(ctx context.Context) error {
		outer := redimutex.LeaseFrom(ctx)
		require.NotNil(t, outer)
		return sem.TryDo(ctx, func(ctx context.Context) error {
			assert.NotSame(t, outer, redimutex.LeaseFrom(ctx))
			assert.Equal(t, 2, inUse(t, sem))
			assert.ErrorIs(t, sem.TryDo(ctx, func(context.Context) error { return nil }), redimutex.ErrLocked)
			return nil
		})
	}))
	assert.Empty(t, s.Keys())
}

func TestInUseTellsWhyItCannot(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "has other words for what a script is refused")
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), redimutex.WithNodeTimeout(2*time.Second))
	sem := c.Semaphore("s", 2)
	s.Do("SET", "s", "a mutex", "PX", "60000")
	_, err := sem.InUse(t.Context())
	assert.ErrorContains(t, err, "another kind")
	var refused *redimutex.NodeError
	assert.ErrorAs(t, err, &refused)
	s.Do("DEL", "s")
	for score, ttl := range map[string]int{"9e15": 0, "250": 60_000} { // no TTL, or a score in the past
		s.Do("ZADD", "s", score, "a player of a game")
		if ttl > 0 {
			s.Do("PEXPIRE", "s", ttl)
		}
		_, err = sem.InUse(t.Context())
		assert.ErrorContains(t, err, "another kind")
		_, err = sem.TryAcquire(t.Context())
		assert.ErrorAs(t, err, &refused)
		assert.Equal(t, int64(1), s.Do("ZCARD", "s"), "the players are still there")
		s.Do("DEL", "s")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(assert.AnError)
	_, err = sem.InUse(ctx)
	assert.ErrorIs(t, err, assert.AnError)
	s.Pause()
	began := time.Now()
	_, err = sem.InUse(t.Context())
	s.Resume()
	assert.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.Less(t, time.Since(began), 30*time.Second)
	require.NoError(t, c.Close())
	_, err = sem.InUse(t.Context())
	assert.ErrorIs(t, err, redimutex.ErrClosed)
}

func TestAKeyIsOfOneKindAndTheOtherIsToldSoAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool())
	for _, opts := range [][]redimutex.Option{nil, {redimutex.WithQueue()}} {
		sem, m := c.Semaphore("k", 2, opts...), c.Mutex("k", opts...)
		l, err := sem.Acquire(t.Context())
		require.NoError(t, err)
		for _, err := range []error{m.LockContext(t.Context(), time.Minute), m.TryLockContext(t.Context())} {
			assert.ErrorContains(t, err, "a lock of another kind")
			assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
			assert.NotErrorIs(t, err, redimutex.ErrLocked)
		}
		require.NoError(t, l.Release(t.Context()))
		m.Lock()
		_, err = sem.Acquire(t.Context())
		assert.ErrorContains(t, err, "a lock of another kind")
		assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
		m.Unlock()
		assert.Empty(t, s.Keys())
	}
}

func TestASortedSetThatIsNoSemaphoreLosesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool())
	s.Do("ZADD", "board", 5, "alice", 7, "bob")
	for _, opts := range [][]redimutex.Option{nil, {redimutex.WithQueue()}} {
		sem := c.Semaphore("board", 9, opts...)
		_, waits := sem.Acquire(t.Context())
		_, tries := sem.TryAcquire(t.Context())
		for _, err := range []error{waits, tries} {
			assert.ErrorContains(t, err, "other data need keys of their own")
			assert.NotErrorIs(t, err, redimutex.ErrLocked)
		}
	}
	members, err := redis.Strings(s.Do("ZRANGE", "board", 0, -1), nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"alice", "bob"}, members)
	assert.Equal(t, []string{"board"}, s.Keys())
	assert.EqualValues(t, -1, s.Do("PTTL", "board"))
}

func TestASemaphoreRefusesWhatItCannotKeep(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := s.Pool()
	c := newClient(t, pool)
	for words, f := range map[string]func(){
		"WithFencing: not with a Semaphore":         func() { c.Semaphore("s", 1, redimutex.WithFencing()) },
		"WithLeaseReuse(1ms): not with a Semaphore": func() { c.Semaphore("s", 1, redimutex.WithLeaseReuse(time.Millisecond)) },
		"WithMinHold(1s): not with a Semaphore":     func() { c.Semaphore("s", 1, redimutex.WithMinHold(time.Second)) },
		"WithReentrancy: not with a Semaphore":      func() { redimutex.NewSemaphore(pool, "s", 1, redimutex.WithReentrancy()) },
		"permits has to be 1 at least":              func() { c.Semaphore("s", 0) },
		"the key of a Semaphore is empty":           func() { c.Semaphore("", 1) },
		"reserved for what belongs to locks":        func() { c.Semaphore("redimutex:s", 1) },
		"holders on 1+2, 2+3, 1+3": func() {
			redimutex.NewClient([]redimutex.Pool{pool, new(redis.Pool), new(redis.Pool)}).Semaphore("s", 1)
		},
		"a zero Mutex, RWMutex or Semaphore has": func() { _, _ = new(redimutex.Semaphore).Acquire(t.Context()) },
	} {
		assert.ErrorContains(t, panicOf(f), words)
	}
	l, err := redimutex.NewSemaphore(pool, "s", 1).TryAcquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
}

func TestInUseWithATimeThatIsOverAsksNoServer(t *testing.T) {
	t.Parallel()
	c := newClient(t, redistest.Start(t).Pool())
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := c.Semaphore("k", 2).InUse(ctx)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
}
