package redimutex_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestClosedClientLocksNothing(t *testing.T) {
	t.Parallel()
	client := redimutex.NewClient([]redimutex.Pool{redistest.Start(t).Pool()}, patient)
	m := client.Mutex("k")
	known := client.Mutex("known", redimutex.WithLeaseReuse(time.Second))
	for range 2 { // after this, the Mutex and the Client remember the key
		known.Lock()
		known.Unlock()
	}
	require.NoError(t, client.Close())
	require.NoError(t, client.Close(), "twice is once")
	assert.ErrorIs(t, known.LockContext(t.Context(), 0), redimutex.ErrClosed)
	assert.ErrorIs(t, known.TryLockContext(t.Context()), redimutex.ErrClosed)
	never := func(context.Context) error { t.Error("f ran"); return nil }
	for _, err := range []error{
		m.LockContext(t.Context(), 0), m.TryLockContext(t.Context()), m.Do(t.Context(), never), m.TryDo(t.Context(), never),
		panicOf(m.Lock),
	} {
		assert.ErrorIs(t, err, redimutex.ErrClosed)
	}
	assert.False(t, m.TryLock())
}

func TestCloseWakesTheWaiters(t *testing.T) {
	t.Parallel()
	pool := redistest.Start(t).Pool()
	holder := newMutex(t, pool, "k")
	holder.Lock()
	defer holder.Unlock()
	client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithPollInterval(9*time.Second))
	require.NoError(t, client.Mutex("own").LockContext(t.Context(), 0)) // it stays locked
	got := make(chan error, 10)
	for range 5 {
		go func() { got <- client.Mutex("k").LockContext(context.Background(), 0) }()
		go func() { got <- client.Mutex("own").LockContext(context.Background(), 0) }()
	}
	locktest.WaitInLine(t, client, 10)
	require.NoError(t, client.Close())
	for range 10 {
		assert.ErrorIs(t, redistest.Receive(t, "the end of a wait", got), redimutex.ErrClosed)
	}
}

func TestCloseEndsHoldsAndUnlockStillDeletesTheKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := redimutex.NewClient([]redimutex.Pool{s.Pool()}, patient)
	m := client.Mutex("k")
	m.Lock()
	l := m.Lease()
	ctx := l.Context(t.Context())
	require.NoError(t, client.Close())
	assert.True(t, ended(l.Done()))
	assert.ErrorIs(t, l.Err(), redimutex.ErrLost)
	assert.ErrorIs(t, l.Err(), redimutex.ErrClosed)
	assert.ErrorIs(t, context.Cause(ctx), redimutex.ErrClosed)
	assert.True(t, s.Exists("k"), "the code that it protects may still run")
	assert.Zero(t, client.Stats().Held)
	err := m.UnlockContext(t.Context())
	assert.ErrorIs(t, err, redimutex.ErrLost)
	assert.ErrorIs(t, err, redimutex.ErrClosed)
	redistest.Wait(t, "Unlock to delete the key", func() bool { return !s.Exists("k") || s.PTTL("k") < time.Second })
	assert.False(t, s.Exists("k"))
}

func TestLockThatRacesWithCloseLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for i := range 60 {
		sent := make(chan struct{})
		pool := redistest.NewBetween(s.Pool())
		pool.Set(func(command redistest.Command) (any, error) {
			pool.Set(nil)
			close(sent)
			return command.Run()
		})
		client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(20*time.Second))
		m := client.Mutex("k")
		got := make(chan error, 1)
		go func() { got <- m.LockContext(context.Background(), 0) }()
		switch i % 3 { // Close races with the call, with its try, or with its Unlock
		case 1:
			<-sent
		case 2:
			got <- <-got
		}
		go client.Close() //nolint:errcheck // it returns nil
		if err := <-got; err == nil {
			assert.NoError(t, ignoreClosed(m.UnlockContext(t.Context())))
		} else {
			assert.ErrorIs(t, err, redimutex.ErrClosed)
		}
		require.NoError(t, client.Close())
		redistest.Wait(t, "no key", func() bool { return !s.Exists("k") })
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, redimutex.ErrClosed) {
		return nil
	}
	return err
}

// A process may lock a million keys, one after the other.
func TestAClientForgetsAKeyThatNobodyUses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "foreign", "x", "PX", 60_000)
	once := newClient(t, s.Pool())
	require.False(t, once.Mutex("foreign").TryLock())
	require.Zero(t, once.Keys(), "what the server has refused")
	s.Do("DEL", "foreign")
	for name, option := range map[string]redimutex.Option{
		"plain": redimutex.WithPollInterval(time.Millisecond), "queue": redimutex.WithQueue(), "reuse": redimutex.WithLeaseReuse(5 * time.Millisecond),
	} {
		c := newClient(t, s.Pool(), option)
		var group sync.WaitGroup
		for i := range 6 {
			group.Go(func() {
				for range 100 {
					m := c.Mutex(name)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
					err := m.LockContext(ctx, 0)
					if i%2 == 0 && err != nil {
						err = m.TryLockContext(t.Context())
					}
					cancel()
					if err == nil {
						m.Unlock()
					}
				}
			})
		}
		group.Wait()
		redistest.Wait(t, name+": nothing is remembered", func() bool { return c.Keys() == 0 })
	}
	redistest.Wait(t, "nothing is left", func() bool { return len(s.Keys()) == 0 })
}

// A line exists only while goroutines use it, but one key must never have two lines.
func TestAKeyHasOneLineHoweverManyComeAndGo(t *testing.T) {
	t.Parallel()
	pool := redistest.NewBetween(redistest.Start(t).Pool())
	var asking, most atomic.Int64
	pool.Set(func(redistest.Command) (any, error) {
		if n := asking.Add(1); n > most.Load() {
			most.Store(n)
		}
		runtime.Gosched()
		asking.Add(-1)
		return nil, redis.Error("LOADING not yet")
	})
	c := newClient(t, pool, redimutex.WithNodeTimeout(9*time.Second)) // no operation is left behind
	var group sync.WaitGroup
	for range 8 {
		m := c.Mutex("k")
		group.Go(func() {
			for range 5000 {
				assert.Error(t, m.TryLockContext(t.Context()))
			}
		})
	}
	group.Wait()
	assert.EqualValues(t, 1, most.Load(), "one at a time speaks to the server")
}

func TestStatsCountWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		cut := redistest.NewBetween(pool)
		client := newClient(t, cut, redimutex.WithTTL(9*time.Second))
		m := client.Mutex("k")
		assert.Equal(t, redimutex.Stats{Errors: []int64{0}}, client.Stats())

		m.Lock()
		go func() {
			if client.Mutex("k").LockContext(t.Context(), 0) == nil {
				panic("locked twice")
			}
		}()
		synctest.Wait()
		s := client.Stats()
		assert.Equal(t, 1, s.Held)
		assert.Equal(t, 1, s.Waiting)
		time.Sleep(7 * time.Second)
		assert.EqualValues(t, 2, client.Stats().Renewed)
		server.Del("k")
		redistest.Receive(t, "the next renewal finds the key gone", m.Lease().Done())
		synctest.Wait()
		s = client.Stats()
		assert.Zero(t, s.Held, "a lost lease is no hold")
		assert.EqualValues(t, 1, s.LostDeleted)
		assert.EqualValues(t, 1, s.Acquired)
		assert.Zero(t, s.Contended)
		assert.Zero(t, s.Released)
	})
}

func TestStatsOfContentionAndFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		cut := redistest.NewBetween(pool)
		client := newClient(t, cut)
		m := client.Mutex("k")
		require.NoError(t, server.Set("k", "foreign"))
		server.SetTTL("k", 3*time.Second)
		m.Lock()
		s := client.Stats()
		assert.EqualValues(t, 1, s.Contended)
		assert.InDelta(t, 3*time.Second, s.WaitTime, float64(100*time.Millisecond))
		time.Sleep(2 * time.Second)
		m.Unlock()
		s = client.Stats()
		assert.EqualValues(t, 1, s.Released)
		assert.InDelta(t, 2*time.Second, s.HoldTime, float64(time.Millisecond))

		cut.Set(redistest.Cut)
		assert.Error(t, m.TryLockContext(t.Context()))
		s = client.Stats()
		assert.EqualValues(t, 1, s.Failed)
		assert.Equal(t, []int64{1}, s.Errors)
		cut.Set(nil)

		m.Lock()
		require.NoError(t, server.Set("k", "other"))
		assert.Error(t, m.UnlockContext(t.Context()))
		assert.EqualValues(t, 1, client.Stats().LostTaken, "a loss that only the release has noticed")
	})
}

func TestErrorsOfAServerCountAlsoWhereTheOthersAreEnough(t *testing.T) {
	t.Parallel()
	a, b, c := redistest.Start(t), redistest.Start(t), redistest.Start(t)
	start := func() (*redimutex.Client, *redimutex.Mutex) {
		client := newClientOver(t, []redimutex.Pool{a.Pool(), b.Pool(), c.Pool()}, redimutex.WithTTL(time.Minute), redimutex.WithoutRenewal())
		return client, client.Mutex("k")
	}
	client, m := start()
	m.Lock()
	m.Unlock()
	require.NoError(t, client.Close())
	assert.Equal(t, []int64{0, 0, 0}, client.Stats().Errors)

	b.Kill()
	client, m = start() // this Client does not take any server for slow, so it asks all three
	counted := func(n int64) func() bool { return func() bool { return client.Stats().Errors[1] >= n } }
	m.Lock()
	redistest.Wait(t, "the failed try", counted(1)) // the majority does not wait for this try
	require.NoError(t, m.Lease().Extend(t.Context(), time.Minute))
	redistest.Wait(t, "the failed extension", counted(2))
	m.Unlock()
	require.NoError(t, client.Close())
	failed := client.Stats().Errors
	assert.Zero(t, failed[0])
	assert.Zero(t, failed[2])
}

func TestACallerThatGivesUpIsNoErrorOfAServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, s.Pool(), patient)
	s.Do("SET", "k", "foreign", "PX", 60_000)
	require.ErrorIs(t, client.Mutex("k").LockContext(t.Context(), time.Second), redimutex.ErrLocked)
	assert.Equal(t, []int64{0}, client.Stats().Errors)
}

// The release waits for the extension, which is answered after the end of its hold.
func TestAnExtensionOfAHoldThatHasEndedIsNoErrorOfTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	front := redistest.NewFront(t, s)
	pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", front.Addr()) }}
	t.Cleanup(func() { pool.Close() })
	client := newClient(t, pool, redimutex.WithNodeTimeout(9*time.Second))
	m := client.Mutex("k")
	l, err := m.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Extend(t.Context(), 10*time.Second)) // now the server knows the script
	seen := make(chan struct{}, 1)
	front.On(func([]string) redistest.Fate {
		front.On(nil)
		close(seen)
		return redistest.Fate{Delay: 30 * time.Millisecond}
	})
	extended := make(chan error, 1)
	go func() { extended <- l.Extend(t.Context(), 11*time.Second) }()
	<-seen
	require.NoError(t, l.Release(t.Context()))
	assert.Error(t, redistest.Receive(t, "the end of the extension", extended))
	assert.Equal(t, []int64{0}, client.Stats().Errors)
}
