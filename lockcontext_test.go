package redimutex_test

import (
	"context"
	"errors"
	"fmt"
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

// rivals returns two Mutexes that want a held lock. In the first case their own Client holds it, in the second another Client.
func rivals(t *testing.T, opts ...redimutex.Option) map[string]*redimutex.Mutex {
	t.Helper()
	pool := redistest.Start(t).Pool()
	client := newClient(t, pool, opts...)
	holder := client.Mutex("k")
	holder.Lock()
	t.Cleanup(holder.Unlock)
	return map[string]*redimutex.Mutex{
		"held in this process": client.Mutex("k"),
		"held elsewhere":       newMutex(t, pool, "k", opts...),
	}
}

func TestLockContextGivesUpWhenTheTimeoutIsOver(t *testing.T) {
	t.Parallel()
	const limit = 700 * time.Millisecond // long enough for at least one answer
	for name, m := range rivals(t) {
		for how, lock := range map[string]func() error{
			"timeout": func() error { return m.LockContext(t.Context(), limit) },
			"ctx": func() error {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				return m.LockContext(ctx, 0)
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				began := time.Now()
				err := lock()
				assert.GreaterOrEqual(t, time.Since(began), limit)
				assert.ErrorIs(t, err, redimutex.ErrLocked)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
				assert.Nil(t, m.Lease())
				var value *redimutex.LockedError
				assert.ErrorAs(t, err, &value)
			})
		}
	}
}

func TestLockContextGetsTheLockWhenTheHolderUnlocks(t *testing.T) {
	t.Parallel()
	pool := redistest.Start(t).Pool()
	client := newClient(t, pool)
	m := client.Mutex("k")
	for name, next := range map[string]*redimutex.Mutex{
		"in this process": client.Mutex("k"),
		"elsewhere":       newMutex(t, pool, "k"),
	} {
		t.Run(name, func(t *testing.T) {
			m.Lock()
			got := make(chan error)
			go func() { got <- next.LockContext(t.Context(), time.Minute) }()
			select {
			case err := <-got:
				t.Fatal("locked twice", err)
			case <-time.After(150 * time.Millisecond):
			}
			m.Unlock()
			require.NoError(t, <-got)
			next.Unlock()
		})
	}
}

func TestCancelledWaitReturnsTheCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("shutting down")
	for name, m := range rivals(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			got := make(chan error)
			go func() { got <- m.LockContext(ctx, time.Minute) }()
			redistest.Wait(t, "the waiter", func() bool { return mutexWaits(m) })
			cancel(cause)
			err := <-got
			assert.ErrorIs(t, err, cause)
			assert.ErrorIs(t, err, context.Canceled)
			assert.NotErrorIs(t, err, redimutex.ErrLocked)
			assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
			assert.ErrorContains(t, err, "shutting down")
		})
	}
}

// mutexWaits reports whether a caller waits for m, in the queue or between two tries. Only then does a try find the lock
// neither ours nor free.
func mutexWaits(m *redimutex.Mutex) bool { return m.TryLockContext(context.Background()) != nil }

func TestEndedContextLocksNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	cause := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	never := func(context.Context) error { t.Error("f ran"); return nil }
	for _, err := range []error{
		m.LockContext(ctx, 0), m.LockContext(ctx, time.Minute), m.LockContext(ctx, -1), m.TryLockContext(ctx),
		m.Do(ctx, never), m.TryDo(ctx, never),
	} {
		assert.ErrorIs(t, err, cause)
		assert.ErrorIs(t, err, context.Canceled)
	}
	assert.False(t, s.Exists("k"))
}

// A tardy is a ctx whose deadline has passed, while its timer is late.
type tardy struct{ context.Context }

func (tardy) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// On a busy machine timers are late.
func TestACallThatBeginsAfterItsDeadlineAsksNoServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", redimutex.WithTrace(&redimutex.Trace{Attempt: func(redimutex.Event) { t.Error("a try") }}))
	for verb, f := range map[string]func(context.Context) error{
		"TryLockContext": m.TryLockContext,
		"LockContext":    func(ctx context.Context) error { return m.LockContext(ctx, 0) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := f(tardy{ctx})
		cancel()
		assert.ErrorIs(t, err, context.DeadlineExceeded, verb)
		assert.NotErrorIs(t, err, redimutex.ErrUnavailable, verb)
	}
}

// endsAt is a ctx whose deadline passes when it is looked at for the n-th time.
type endsAt struct {
	context.Context
	n     atomic.Int64
	ended chan struct{}
}

func (c *endsAt) Done() <-chan struct{} { return c.ended }

func (c *endsAt) Err() error {
	switch n := c.n.Add(-1); {
	case n > 0:
		return nil
	case n == 0:
		close(c.ended)
	}
	return context.DeadlineExceeded
}

func TestACallThatEndsBeforeItHasAskedDoesNotSayThatAnotherHasTheLock(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Start(t).Pool(), redimutex.WithNodeTimeout(9*time.Second))
	ended := 0
	for n := range 5 {
		for name, lock := range map[string]locktest.Acquire{
			"Mutex": client.Mutex("k").Acquire, "RWMutex": client.RWMutex("rw").RAcquire, "try": client.RWMutex("rw").TryRAcquire,
		} {
			ctx := &endsAt{Context: context.WithoutCancel(t.Context()), ended: make(chan struct{})}
			ctx.n.Store(int64(n + 1))
			lease, err := lock(ctx)
			if err == nil {
				require.NoError(t, lease.Release(t.Context()))
				continue
			}
			ended++
			require.ErrorIs(t, err, context.DeadlineExceeded, "%s, %d", name, n)
			require.NotErrorIs(t, err, redimutex.ErrLocked, "%s, %d", name, n)
		}
	}
	assert.GreaterOrEqual(t, ended, 6)
}

// A caller waits in line, and then its own try is cut short. Its error names the reason that has cost it the most time.
func TestACallThatHasWaitedInLineSaysForWhom(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]error{30 * time.Millisecond: redimutex.ErrUnavailable, 95 * time.Millisecond: redimutex.ErrLocked} {
		synctest.Test(t, func(t *testing.T) {
			_, pool := redistest.Virtual(t)
			between := redistest.NewBetween(pool)
			m := newMutex(t, between, "k", redimutex.WithNodeTimeout(time.Second))
			m.Lock()
			m.Unlock() // now the server knows the script
			m.Lock()
			time.AfterFunc(after, func() {
				var commands atomic.Int32
				between.Set(func(command redistest.Command) (any, error) {
					if commands.Add(1) > 1 { // all commands after the release
						time.Sleep(time.Second)
					}
					return command.Run()
				})
				m.Unlock()
			})
			err := m.LockContext(t.Context(), 100*time.Millisecond)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			for _, e := range []error{redimutex.ErrUnavailable, redimutex.ErrLocked} {
				assert.Equal(t, e == want, errors.Is(err, e), "%v: %v", after, err)
			}
			time.Sleep(4 * time.Second) // until the releases have ended as well
		})
	}
}

// The ctx ends after the server has granted the lock, but before LockContext hears of that.
func TestCancellationWinsTies(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := redistest.NewBetween(s.Pool())
	m := newMutex(t, pool, "k")
	m.Lock() // now the server's clock is known
	m.Unlock()
	cause := errors.New("at the last moment")
	for _, lock := range []func(context.Context) error{
		func(ctx context.Context) error { return m.LockContext(ctx, 0) },
		m.TryLockContext,
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		granted := false
		pool.Set(func(command redistest.Command) (any, error) {
			reply, err := command.Run()
			if !granted && s.Exists("k") {
				granted = true
				cancel(cause)
			}
			return reply, err
		})
		err := lock(ctx)
		require.ErrorIs(t, err, cause)
		assert.Nil(t, m.Lease())
		pool.Set(nil)
		redistest.Wait(t, "the win to be given back", func() bool { return !s.Exists("k") })
		assert.True(t, granted)
		require.NoError(t, m.TryLockContext(t.Context()), "and the lock is in order")
		m.Unlock()
	}
}

func TestTurnThatComesWithTheCancellationIsPassedOn(t *testing.T) {
	t.Parallel()
	m := newMutex(t, redistest.Start(t).Pool(), "k")
	for range 100 {
		m.Lock()
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if m.LockContext(ctx, 0) == nil {
					m.Unlock()
				}
			})
		}
		group.Go(cancel)
		group.Go(m.Unlock)
		group.Wait()
	}
	// A win that came together with the cancellation is released in the background.
	redistest.Wait(t, "the lock to be in order", m.TryLock)
	m.Unlock()
}

func TestTryLockDoesNotWait(t *testing.T) {
	t.Parallel()
	for name, m := range rivals(t, redimutex.WithPollInterval(9*time.Second)) {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			assert.False(t, m.TryLock())
			for _, err := range []error{m.TryLockContext(t.Context()), m.LockContext(t.Context(), -1)} {
				assert.ErrorIs(t, err, redimutex.ErrLocked)
				assert.NotErrorIs(t, err, context.DeadlineExceeded)
			}
			assert.Less(t, time.Since(began), 9*time.Second)
		})
	}
	require.NoError(t, newMutex(t, redistest.Start(t).Pool(), "k").LockContext(t.Context(), -1))
}

// The lock is free on the server, but a caller that already waits for it comes first.
func TestTryLockDoesNotOvertakeTheQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, s.Pool(), redimutex.WithPollInterval(9*time.Second))
	s.Do("SET", "k", "foreign")
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error)
	go func() { got <- client.Mutex("k").LockContext(ctx, 0) }()
	locktest.WaitInLine(t, client, 1)
	s.Do("DEL", "k")
	err := client.Mutex("k").TryLockContext(t.Context())
	assert.ErrorIs(t, err, redimutex.ErrLocked)
	assert.Equal(t, 1, client.Stats().Waiting)
	cancel()
	assert.ErrorIs(t, <-got, context.Canceled)
}

func TestUnlockStopsWaitingWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := redistest.NewBetween(s.Pool())
	m := newMutex(t, pool, "k", redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(30*time.Second))
	m.Lock()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := make(chan struct{})
	pool.Set(func(command redistest.Command) (any, error) {
		cancel(cause)
		<-answer
		return command.Run()
	})
	err := m.UnlockContext(ctx)
	assert.ErrorIs(t, err, cause)
	assert.Nil(t, m.Lease())
	pool.Set(nil)
	close(answer)
	redistest.Wait(t, "the release to go on in the background", func() bool { return !s.Exists("k") })
}

func TestUnlockWithACancelledContextDeletesTheKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dial := func(ctx context.Context) (redis.Conn, error) { return redis.DialContext(ctx, "tcp", s.Addr()) }
	for name, idle := range map[string]int{"warm": 3, "cold": 0} { // over a cold pool every command dials
		m := newMutex(t, &redis.Pool{MaxIdle: idle, DialContext: dial}, "k")
		for verb, unlock := range map[string]func(*redimutex.Lease, context.Context) error{
			"UnlockContext": func(_ *redimutex.Lease, ctx context.Context) error { return m.UnlockContext(ctx) },
			"Release":       (*redimutex.Lease).Release,
		} {
			for range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				l, err := m.Acquire(ctx)
				require.NoError(t, err)
				cancel()
				require.NoError(t, unlock(l, ctx), "%s, %s", verb, name)
				assert.False(t, s.Exists("k"))
			}
		}
	}
}

// This happens over a connection that its last user left inside a transaction.
func TestAnUnexpectedReplyToTheFirstTryGrantsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	front := redistest.NewFront(t, s)
	m := newMutex(t, front.Pool(), "k")
	m.Lock()
	m.Unlock() // from now on the first try is a SET
	var sets atomic.Int64
	front.On(func(command []string) (f redistest.Fate) {
		if command[0] == "SET" && sets.Add(1) > 0 {
			f.Reply = "+QUEUED\r\n"
		}
		return f
	})
	require.NoError(t, m.LockContext(t.Context(), 10*time.Second))
	assert.Positive(t, sets.Load())
	assert.Equal(t, m.Lease().Token(), s.Get("k"))
	m.Unlock()
}

// The try that was cut short may take the lock, which is then released. The servers are well, so that is quick.
func TestATryAfterOneThatWasCutShortFindsNoLockOfOurOwn(t *testing.T) {
	t.Parallel()
	for _, servers := range []int{1, 3} {
		for _, punctual := range []bool{false, true} {
			t.Run(fmt.Sprint(servers, "/punctual ", punctual), func(t *testing.T) {
				t.Parallel()
				var pools []redimutex.Pool
				for range servers {
					network := redistest.Start(t).Far(10 * time.Millisecond)
					if punctual {
						pools = append(pools, redimutex.NewPoolAt("tcp", network.Addr()))
					} else {
						pools = append(pools, network.Pool())
					}
				}
				m := newClientOver(t, pools, patient).Mutex("k")
				require.NoError(t, m.Do(t.Context(), func(context.Context) error { return nil }))
				for range 20 {
					tryAfterACut(t, m)
				}
			})
		}
	}
}

func tryAfterACut(t *testing.T, m *redimutex.Mutex) {
	lateness, began := redistest.MeasureLateness(), time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	require.ErrorIs(t, m.LockContext(ctx, 0), context.DeadlineExceeded)
	cancel()
	err := m.TryLockContext(t.Context())
	if late := lateness.Stop(); err != nil && (late > 20*time.Millisecond || time.Since(began) > 100*time.Millisecond) {
		err = m.LockContext(t.Context(), time.Minute) // the servers seemed silent, and a try does not wait for silent servers
	}
	require.NoError(t, err)
	require.NoError(t, m.UnlockContext(t.Context()))
}
