package redimutexgocron_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/election"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	redimutexgocron "github.com/redimutex/redimutex/schedulers/gocron"
)

func TestNonsensePanicsBeforeTheFirstJob(t *testing.T) {
	t.Parallel()
	c := locktest.Client(t, redistest.Start(t).Pool())
	assert.PanicsWithValue(t, "redimutexgocron: NewLocker: the minimum hold is 0s; it has to be longer than clocks differ",
		func() { redimutexgocron.NewLocker(c, "p:", 0) })
	assert.Panics(t, func() { redimutexgocron.NewLocker(c, "redimutex:", time.Second) })
	assert.PanicsWithValue(t, "redimutexgocron: NewLocker needs a Client, and got nil",
		func() { redimutexgocron.NewLocker(nil, "p:", time.Second) })
	assert.PanicsWithValue(t, "redimutexgocron: NewElector needs an Election, and got nil", func() { redimutexgocron.NewElector(nil) })
}

func TestAJobThatOutlivesTheMinimumHoldKeepsItsLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const hold = 2 * time.Second
	patient := redimutex.WithNodeTimeout(hold / 2)
	one, other := locktest.Client(t, s.Pool()), locktest.Client(t, s.Pool())
	l, err := redimutexgocron.NewLocker(one, "p:", hold, patient).Lock(t.Context(), "job")
	require.NoError(t, err)
	redistest.Wait(t, "the lock is renewed", func() bool { return one.Stats().Renewed > 3 })
	_, err = redimutexgocron.NewLocker(other, "p:", hold, patient).Lock(t.Context(), "job")
	require.ErrorIs(t, err, redimutex.ErrLocked)
	require.NoError(t, l.Unlock(t.Context()))
	next, err := redimutexgocron.NewLocker(other, "p:", hold, patient).Lock(t.Context(), "job")
	require.NoError(t, err, "the minimum hold was over long ago")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, next.Unlock(ended), "gocron's ctx of a job has ended when its scheduler shuts down")
	redistest.Wait(t, "it is free when the minimum hold is over", func() bool { return s.Get("p:job") == "" })
}

func TestALockStaysForItsMinimumHoldAndNoLonger(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const hold = time.Minute
	l, err := redimutexgocron.NewLocker(locktest.Client(t, s.Pool()), "p:", hold).Lock(t.Context(), "job")
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
	_, err = redimutexgocron.NewLocker(locktest.Client(t, s.Pool()), "p:", hold).Lock(t.Context(), "job")
	require.ErrorIs(t, err, redimutex.ErrLocked)
	ms, _ := s.Do("PTTL", "p:job").(int64)
	assert.LessOrEqual(t, ms, hold.Milliseconds())
	assert.Greater(t, ms, hold.Milliseconds()/2)
}

// Machines that come at the same time may split the votes of several servers. Here two others have a vote each, on two of the
// three servers, until the first try has failed.
func TestSplitVotesAreCastAgain(t *testing.T) {
	t.Parallel()
	servers := locktest.Start(t, 3)
	servers[0].Do("SET", "p:job", "one", "PX", 60000)
	servers[1].Do("SET", "p:job", "other", "PX", 60000)
	c := servers.Client(t)
	var failed atomic.Int64
	c.Observe(&redimutex.Trace{GaveUp: func(redimutex.Event) {
		failed.Add(1)
		servers[0].Do("DEL", "p:job")
		servers[1].Do("DEL", "p:job")
	}})
	_, err := redimutexgocron.NewLocker(c, "p:", time.Minute).Lock(t.Context(), "job")
	require.NoError(t, err)
	assert.EqualValues(t, 1, failed.Load())
	_, err = redimutexgocron.NewLocker(c, "p:", time.Minute).Lock(t.Context(), "job")
	require.ErrorIs(t, err, redimutex.ErrLocked)
	assert.LessOrEqual(t, failed.Load(), int64(6), "a machine that comes too late gives up")
}

func TestOnlyTheLeaderRunsJobsAndAsksNoServerForThem(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	type machine struct {
		election *election.Election
		runs     atomic.Int64
	}
	start := func(name string) *machine {
		m := &machine{election: election.New(locktest.Client(t, s.Pool()), "lead", name, redimutex.WithTTL(time.Minute))}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = m.election.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		sched, err := gocron.NewScheduler(gocron.WithDistributedElector(redimutexgocron.NewElector(m.election)))
		require.NoError(t, err)
		_, err = sched.NewJob(gocron.DurationJob(5*time.Millisecond), gocron.NewTask(func() { m.runs.Add(1) }))
		require.NoError(t, err)
		sched.Start()
		t.Cleanup(func() {
			assert.NoError(t, sched.Shutdown())
			cancel()
			<-over
		})
		return m
	}
	a := start("a")
	redistest.Wait(t, "a leads", a.election.IsLeader)
	b := start("b")
	redistest.Wait(t, "b stands in line", func() bool {
		n, _ := s.Do("EXISTS", "redimutex:queue:{lead}").(int64)
		return n == 1
	})
	s.Pause() // a caller that asks the server now gets no answer
	before := a.runs.Load()
	redistest.Wait(t, "a runs its job", func() bool { return a.runs.Load() >= before+20 })
	assert.Zero(t, b.runs.Load())
	require.ErrorIs(t, redimutexgocron.NewElector(b.election).IsLeader(t.Context()), redimutexgocron.ErrNotLeader)
	s.Resume()
	a.election.Resign()
	redistest.Wait(t, "b runs its job", func() bool { return b.runs.Load() >= 20 })
	require.ErrorIs(t, redimutexgocron.NewElector(a.election).IsLeader(t.Context()), redimutexgocron.ErrNotLeader)
}
