package queue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// A queued goroutine waits for a lock.
type queued struct {
	t   *testing.T
	m   *redimutex.Mutex
	got <-chan error
}

// queue makes m wait behind n others that already wait.
func queue(t *testing.T, s *redistest.Server, m *redimutex.Mutex, n int) queued {
	t.Helper()
	return queued{t, m, startWaiting(t, s, m, n+1)}
}

// gets waits until the waiter has the lock, and unlocks it. It returns how long that took since start.
func (q queued) gets(start time.Time) time.Duration {
	q.t.Helper()
	assert.NoError(q.t, <-q.got)
	took := time.Since(start)
	assert.NoError(q.t, q.m.UnlockContext(context.Background()))
	return took
}

func TestKilledWaitersAtTheHeadCostNothing(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "does not count commands")
	s, holder := startHeld(t)
	const dead = 4
	for i := range dead {
		w := startWorker(t, s.Addr(), 500*time.Millisecond, 1)
		waitQueued(t, s, "k", i+1)
		w.Kill()
	}
	redistest.Wait(t, "their connections are closed", func() bool { return s.Subscribers() == 0 })
	q := queue(t, s, newMutex(t, s.Pool()), dead)
	before := s.Calls("evalsha")
	start := time.Now()
	holder.Unlock()
	took := q.gets(start)
	assert.Less(t, took, slow)
	t.Logf("%d killed waiters in front delayed the hand-off to %v, with %d requests", dead, took, s.Calls("evalsha")-before)
}

func TestWaiterGetsTheLockOfADeadHolderWithItsTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	start := time.Now()
	s.Do("SET", "k", "a holder that is dead", "PX", 500)
	m := newMutex(t, s.Pool())
	require.NoError(t, m.LockContext(t.Context(), time.Minute))
	assert.GreaterOrEqual(t, time.Since(start), 400*time.Millisecond)
	assert.Less(t, time.Since(start), slow)
	m.Unlock()
}

func TestForeignClientsDelayAQueueAndDontBlockIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "k", "foreign", "PX", 60000)
	m := newMutex(t, s.Pool())
	q := queue(t, s, m, 0)
	start := time.Now()
	s.Do("DEL", "k")
	assert.Less(t, q.gets(start), slow, "a lock that is deleted is found")

	for range 50 { // a client that takes the lock whenever it is free
		s.Do("SET", "k", "foreign", "NX", "PX", 5)
		require.NoError(t, m.LockContext(t.Context(), time.Minute))
		assert.Nil(t, s.Do("SET", "k", "foreign", "NX", "PX", 5), "it keeps out")
		if err := m.UnlockContext(t.Context()); err != nil {
			require.ErrorIs(t, err, redimutex.ErrLost, "on a machine that stood still for a claim")
		}
	}
}

func TestWaitersGoOnWithAServerThatWasRestarted(t *testing.T) {
	t.Parallel()
	s, holder := startHeld(t)
	a := queue(t, s, newMutex(t, s.Pool()), 0)
	b := queue(t, s, newMutex(t, s.Pool()), 1)
	s.Restart()
	start := time.Now()
	both := make(chan time.Duration, 2)
	for _, q := range []queued{a, b} { // the server has forgotten their order, too
		go func() { both <- q.gets(start) }()
	}
	assert.Less(t, <-both, slow)
	assert.Less(t, <-both, slow)
	holder.UnlockContext(t.Context()) //nolint:errcheck // the lock was lost, or its connection
	redistest.Wait(t, "nothing is left", func() bool { return len(s.Keys()) == 0 })
}

func TestAFailedLookIsRepeatedSoonWhateverTheBackoff(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", key, "a foreign client", "PX", 600_000)
	pool := outside{redistest.NewBetween(s.Pool()), s.Pool()}
	m := newMutex(t, pool, redimutex.WithBackoff(func(int) time.Duration { return time.Hour }))
	got := startWaiting(t, s, m, 1)
	var failed atomic.Int32
	pool.Set(func(redistest.Command) (any, error) {
		failed.Add(1)
		return nil, redistest.ErrCut
	})
	redistest.Wait(t, "a look has failed", func() bool { return failed.Load() > 0 })
	pool.Set(nil)
	s.Do("DEL", key)
	assert.NoError(t, <-got)
	unlock(t, m)
}

func TestKilledSubscriberIsReplaced(t *testing.T) {
	t.Parallel()
	s, holder := startHeld(t)
	q := queue(t, s, newMutex(t, s.Pool()), 0)
	for range 5 {
		killed := s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		require.EqualValues(t, 1, killed)
		redistest.Wait(t, "another subscriber", func() bool { return s.Subscribers() == 1 })
	}
	// The waiter has kept its place in the queue.
	waitQueued(t, s, "k", 1)
	other := queue(t, s, newMutex(t, s.Pool()), 1)
	holder.Unlock()
	q.gets(time.Now())
	other.gets(time.Now())
}

// A waiter could not hear that it was called. It still comes before later waiters, even if it hears again by the time it
// learns of the call.
func TestWaiterThatWasPassedOverWhileItsSubscriptionWasBrokenKeepsItsPlace(t *testing.T) {
	t.Parallel()
	s, holder := startHeld(t)
	var cut atomic.Bool
	first := queue(t, s, newMutex(t, &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) {
		if cut.Load() {
			return nil, errors.New("cut off")
		}
		return redis.Dial("tcp", s.Addr())
	}}), 0)
	cut.Store(true) // its open connections still work, so its looks are answered
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	redistest.Wait(t, "no one listens", func() bool { return s.Subscribers() == 0 })
	second := queue(t, s, newMutex(t, s.Pool()), 1)
	holder.Unlock()
	select {
	case err := <-second.got:
		require.NoError(t, err)
	case <-first.got:
		require.Fail(t, "it was given the lock without being heard")
	}
	third := queue(t, s, newMutex(t, s.Pool()), 0)
	cut.Store(false)
	waitQueued(t, s, "k", 2)
	second.m.Unlock()
	select {
	case err := <-first.got:
		require.NoError(t, err)
	case <-third.got:
		require.Fail(t, "who came later was first")
	}
	first.m.Unlock()
	third.gets(time.Now())
}

// testWithoutSubscriber makes a client wait that can use the server only over pool, and can't subscribe.
func testWithoutSubscriber(t *testing.T, s *redistest.Server, pool redimutex.Pool) {
	t.Helper()
	holder := newMutex(t, s.Pool())
	holder.Lock()
	c := locktest.Client(t, pool, redimutex.WithQueue(), redimutex.WithPollInterval(10*time.Millisecond))
	m := c.Mutex("k")
	locked := make(chan error, 1)
	go func() { locked <- m.LockContext(context.Background(), time.Minute) }()
	locktest.WaitInLine(t, c, 1)
	before := s.Calls("evalsha")
	redistest.Wait(t, "it polls", func() bool { return s.Calls("evalsha")-before > 5 })
	assert.Empty(t, queueOf(t, s, "k"), "no waiter queues that can't be called")
	holder.Unlock()
	require.NoError(t, <-locked)
	require.NoError(t, m.UnlockContext(context.Background()))
}

// mute returns a pool for a user who may neither publish nor subscribe.
func mute(s *redistest.Server) *redis.Pool {
	s.Do("ACL", "SETUSER", "mute", "on", "nopass", "allkeys", "allcommands", "resetchannels")
	return s.Pool(redis.DialUsername("mute"), redis.DialPassword("x"))
}

func TestWaiterPollsWhereItMayNotSubscribe(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ChannelRules)
	s := redistest.Start(t)
	testWithoutSubscriber(t, s, mute(s))
}

// The first in line is called in vain, and no other waiter is called after it.
func TestAMessageThatTheServerRefusesLeavesTheLockFreeForTheNextLook(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ChannelRules)
	s := redistest.Start(t)
	holder := newMutex(t, mute(s))
	require.NoError(t, holder.LockContext(t.Context(), time.Minute))
	network := s.Proxy()
	patient := []redimutex.Option{redimutex.WithNodeTimeout(4 * slow), redimutex.WithTTL(time.Hour)}
	first := queue(t, s, newMutex(t, network.Pool(), patient...), 0)
	second := queue(t, s, newMutex(t, network.Pool(), patient...), 1)
	network.Hold(redistest.Requests) // neither looks
	unlock(t, holder)
	assert.False(t, s.Exists(key), "the lock is free")
	require.Len(t, queueOf(t, s, key), 1, "the second keeps its place")
	network.Release()
	second.gets(time.Now())
	first.gets(time.Now())
}

// Otherwise a server whose clock was set back would put all later waiters before the earlier ones.
func TestWaitersFromBeforeTheClockWasSetBackDontStarve(t *testing.T) {
	t.Parallel()
	s, holder := startHeld(t)
	early := queue(t, s, newMutex(t, s.Pool()), 0)
	members := queueOf(t, s, "k")
	hour := time.Now().Add(time.Hour).UnixMicro()
	s.Do("ZADD", server.QueueKey("k"), hour, members[0])
	redistest.Wait(t, "the waiter puts that right at its next look", func() bool {
		score, err := redis.Float64(s.Do("ZSCORE", server.QueueKey("k"), members[0]), nil)
		require.NoError(t, err)
		return score < float64(hour)
	})
	late := queue(t, s, newMutex(t, s.Pool()), 1)
	holder.Unlock()
	require.NoError(t, <-early.got)
	require.NoError(t, early.m.UnlockContext(t.Context()))
	late.gets(time.Now())
}
