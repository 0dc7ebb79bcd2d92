package failure_test

import (
	"context"
	"errors"
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

// With a TTL of an hour, the key of a try that is executed late does not expire during the test.
func TestTryThatAHungServerExecutesLateTakesNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"warm", "cold", "the first of its Client"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			pool := s.Pool()
			if name == "cold" {
				pool.MaxIdle = 0
			}
			opts := []redimutex.Option{redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(300 * time.Millisecond)}
			m := newMutex(t, pool, "k", opts...)
			require.NoError(t, m.LockContext(t.Context(), 0))
			m.Unlock()
			began := 0
			for range 20 {
				if name == "the first of its Client" {
					m = newMutex(t, pool, "k", opts...)
				}
				s.Pause()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				err := m.LockContext(ctx, 0)
				cancel()
				s.Resume()
				if errors.Is(err, redimutex.ErrUnavailable) {
					began++ // on a late machine ctx may end before the try
				}
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.NotErrorIs(t, err, redimutex.ErrLocked)
				locktest.NoOrphans(t, s, pool)
			}
			assert.Positive(t, began)
			for _, lock := range []func() error{ // these end with the node timeout
				func() error { return m.TryLockContext(t.Context()) },
				func() error { return m.LockContext(t.Context(), 400*time.Millisecond) },
			} {
				s.Pause()
				err := lock()
				s.Resume()
				assert.ErrorIs(t, err, redimutex.ErrUnavailable)
				locktest.NoOrphans(t, s, pool)
			}
			s.Do("CLIENT", "PAUSE", "400")
			assert.Error(t, m.LockContext(t.Context(), 20*time.Millisecond))
			locktest.NoOrphans(t, s, pool) // it waits for the end of the pause
		})
	}
}

// If another call of its process is in the way, a call knows no more about the lock than that other call.
func TestACallBehindOneWithoutAnAnswerSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, bare := redistest.Virtual(t)
		pool := redistest.NewBetween(bare)
		m := newMutex(t, pool, "k", redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(10*time.Second))
		require.NoError(t, m.LockContext(t.Context(), 0))
		m.Unlock()
		come, let := make(chan struct{}), make(chan struct{})
		asked := sync.OnceFunc(func() { close(come) })
		pool.Set(func(command redistest.Command) (any, error) {
			asked()
			<-let
			return command.Run()
		})
		cut, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- m.LockContext(cut, 0) }()
		<-come
		assert.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrLocked, "it has just asked")
		err := m.LockContext(t.Context(), 200*time.Millisecond)
		assert.ErrorIs(t, err, redimutex.ErrUnavailable)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, redimutex.ErrLocked)
		time.Sleep(5 * time.Second)
		err = m.TryLockContext(t.Context())
		assert.ErrorIs(t, err, redimutex.ErrUnavailable)
		assert.NotErrorIs(t, err, redimutex.ErrLocked)
		go func() { second <- m.LockContext(t.Context(), 0) }()
		synctest.Wait()
		cancel()
		assert.ErrorIs(t, <-first, context.Canceled)
		err = m.TryLockContext(t.Context())
		assert.ErrorIs(t, err, redimutex.ErrUnavailable)
		assert.NotErrorIs(t, err, context.Canceled, "that the first was cut short")
		close(let)
		require.NoError(t, <-second)
	})
}

// A pool may hang in a dial or a command for longer than the lock could last. Only the operation in it may wait for that.
func TestAReleaseThatHangsGoesOnOverOtherConnections(t *testing.T) {
	t.Parallel()
	for _, hung := range []int32{1, 2, 5} { // the first is that of Unlock, the others run in the background
		synctest.Test(t, func(t *testing.T) {
			_, real := redistest.Virtual(t)
			pool := redistest.NewBetween(real)
			m := newMutex(t, pool, "k", redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(time.Second))
			m.Lock()
			end, commands := make(chan struct{}), atomic.Int32{}
			defer close(end)
			pool.Set(func(command redistest.Command) (any, error) {
				if commands.Add(1) <= hung {
					<-end
					return nil, redistest.ErrCut
				}
				return command.Run()
			})
			assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrUnavailable)
			require.NoError(t, m.LockContext(t.Context(), time.Minute))
			assert.NoError(t, m.UnlockContext(t.Context()))
		})
	}
}

// The connection breaks before the server executes the try, or after that but before the answer.
func TestTryWhoseConnectionBreaksSucceedsAndLeavesNoKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	real := s.Pool()
	pool := redistest.NewBetween(real)
	m := newMutex(t, pool, "k", redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(20*time.Second))
	m.Lock()
	m.Unlock()
	for i := range 20 {
		pool.Set(func(command redistest.Command) (any, error) {
			pool.Set(nil)
			if i%2 == 0 {
				if _, err := command.Run(); err != nil {
					return nil, err
				}
			}
			return nil, redistest.ErrCut
		})
		require.NoError(t, m.TryLockContext(t.Context()), "it goes on over another connection")
		require.NoError(t, m.UnlockContext(t.Context()))
		locktest.NoOrphans(t, s, real)
	}
}

func TestScriptsThatTheServerForgetsAreSentAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, s.Pool(), redimutex.WithTTL(20*time.Second))
	for range 10 {
		m := client.Mutex("k")
		m.Lock()
		s.Do("SCRIPT", "FLUSH")
		assert.ErrorIs(t, newMutex(t, s.Pool(), "k").TryLockContext(t.Context()), redimutex.ErrLocked)
		s.Do("SCRIPT", "FLUSH")
		require.NoError(t, m.Lease().Extend(t.Context(), time.Minute))
		s.Do("SCRIPT", "FLUSH")
		require.NoError(t, m.UnlockContext(t.Context()))
	}
}

func TestRenewalSurvivesForgottenScripts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		m := newMutex(t, pool, "k", redimutex.WithTTL(9*time.Second))
		m.Lock()
		for range 10 {
			c := pool.Get()
			_, err := c.Do("SCRIPT", "FLUSH")
			require.NoError(t, err)
			c.Close()
			time.Sleep(5 * time.Second)
			require.NoError(t, m.Lease().Err())
		}
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}

func TestClientsWorkInsideAndOutsideOfSynctestBubbles(t *testing.T) {
	t.Parallel()
	outside := newMutex(t, redistest.Start(t).Pool(), "k")
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			_, pool := redistest.Virtual(t)
			m := newMutex(t, pool, "k")
			m.Lock()
			m.Unlock()
			time.Sleep(time.Hour)
			require.NoError(t, m.LockContext(t.Context(), time.Second))
			m.Unlock()
		})
		outside.Lock()
		outside.Unlock()
		require.NoError(t, outside.LockContext(t.Context(), time.Minute))
		outside.Unlock()
	}
}

func TestUnlockWorksOnAFullServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	m.Lock()
	s.Do("CONFIG", "SET", "maxmemory", "1")
	assert.NoError(t, m.UnlockContext(t.Context()))
	assert.False(t, s.Exists("k"))
}

// Adding to a set needs memory, while raising the expiry of a key does not.
func TestAFullServerExtendsWhatItSaysItExtends(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, other := newClient(t, s.Pool(), redimutex.WithTTL(time.Minute)), newClient(t, s.Pool())
	for kind, ways := range map[string]struct {
		acquire, try locktest.Acquire
	}{
		"Mutex":     {client.Mutex("m").Acquire, other.Mutex("m").TryAcquire},
		"Semaphore": {client.Semaphore("s", 1).Acquire, other.Semaphore("s", 1).TryAcquire},
		"writer":    {client.RWMutex("w").Acquire, other.RWMutex("w").TryRAcquire},
		"reader":    {client.RWMutex("r").RAcquire, other.RWMutex("r").TryAcquire},
	} {
		l, err := ways.acquire(t.Context())
		require.NoError(t, err)
		s.Do("CONFIG", "SET", "maxmemory", "1")
		assert.NoError(t, l.Extend(t.Context(), time.Hour), kind)
		s.Do("CONFIG", "SET", "maxmemory", "0")
		_, err = ways.try(t.Context())
		var locked *redimutex.LockedError
		require.ErrorAs(t, err, &locked, kind)
		assert.Greater(t, locked.Left, 30*time.Minute, kind)
	}
}

func TestATryOnAFullServerTellsWhoHoldsTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "k", "foreign", "PX", 60_000)
	s.Do("CONFIG", "SET", "maxmemory", "1")
	for what, opts := range map[string][]redimutex.Option{
		"plain": nil, "with fences": {redimutex.WithFencing()}, "with a queue": {redimutex.WithQueue()},
	} {
		m := newMutex(t, s.Pool(), "k", opts...)
		assert.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrLocked, what)
		s.Do("DEL", "k")
		assert.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrUnavailable, what)
		s.Do("CONFIG", "SET", "maxmemory", "0")
		s.Do("SET", "k", "foreign", "PX", 60_000)
		s.Do("CONFIG", "SET", "maxmemory", "1")
	}
}

// A server's clock is known only as exactly as its first reply was fast. So the server may refuse a try in the last moments of
// ctx. All the time, however, another caller held the lock.
func TestATryThatTheServerTakesToBeTooLateSaysNothingOfTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, bare := redistest.Virtual(t)
		pool := redistest.NewBetween(bare)
		m := newMutex(t, pool, "k", redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second), redimutex.WithPollInterval(900*time.Millisecond))
		other := newMutex(t, bare, "k")
		require.NoError(t, other.TryLockContext(t.Context())) // the server knows the scripts now
		require.NoError(t, other.UnlockContext(t.Context()))
		require.NoError(t, server.Set("k", "foreign"))
		cut, late := false, 0
		pool.Set(func(command redistest.Command) (any, error) {
			if command.Name == "TIME" {
				defer time.Sleep(time.Second)
				return command.Run()
			}
			if cut { // the next connection asks for the time again
				cut = false
				return nil, redistest.ErrCut
			}
			reply, err := command.Run()
			if list, ok := reply.([]any); ok && list[0] == any(int64(4)) {
				if late++; late == 1 {
					time.Sleep(200 * time.Millisecond) // so that the repeated try is late by half of that
				}
			} else if ok {
				cut = late == 0
			}
			return reply, err
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3200*time.Millisecond)
		defer cancel()
		err := m.LockContext(ctx, 0)
		require.Equal(t, 2, late, "the try and its repetition are too late")
		assert.ErrorIs(t, err, redimutex.ErrLocked)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
	})
}
