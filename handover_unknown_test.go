package redimutex_test

import (
	"context"
	"slices"
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

// hangs is the node timeout of a Mutex whose server will hang.
const hangs = 3 * time.Second

// behind returns a Mutex whose Client reaches s through a front.
func behind(t testing.TB, s *redistest.Server, timeout time.Duration) (*redistest.Front, *redimutex.Mutex) {
	t.Helper()
	front := redistest.NewFront(t, s)
	pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", front.Addr()) }}
	t.Cleanup(func() { pool.Close() })
	m := newMutex(t, pool, "k", redimutex.WithNodeTimeout(timeout), redimutex.WithFencing())
	first := m.Client().Mutex("k", patient)
	require.NoError(t, first.TakeOver(t.Context(), handOver(t, first, time.Minute))) // now the server knows the scripts
	require.NoError(t, first.UnlockContext(t.Context()))
	return front, m
}

func TestHandOverEndsTheHoldWhateverTheServerAnswers(t *testing.T) {
	t.Parallel()
	for name, phase := range map[string]redistest.Phase{"it was done": redistest.AtReply, "it was not done": redistest.AtCommand} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			front, giver := behind(t, s, hangs)
			taker := newMutex(t, s.Pool(), "k", redimutex.WithFencing(), patient)
			l, err := giver.Acquire(t.Context())
			require.NoError(t, err)
			front.Hang(phase)
			h, err := l.HandOver(t.Context(), time.Minute)
			require.ErrorIs(t, err, redimutex.ErrUnavailable)
			assert.ErrorIs(t, l.Err(), redimutex.ErrUnlocked)
			assert.True(t, ended(l.Done()))
			assert.Nil(t, giver.Lease())
			again, err := l.HandOver(t.Context(), time.Minute)
			require.ErrorIs(t, err, redimutex.ErrUnavailable)
			assert.Equal(t, h, again, "a repeat returns the same Handover")
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err = l.HandOver(ctx, time.Minute)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			front.Lift()
			again, err = l.HandOver(t.Context(), time.Minute)
			require.NoError(t, err, "a repeat finds what it did, or does it")
			assert.Equal(t, h, again)
			assert.NoError(t, giver.UnlockContext(t.Context()))
			require.NoError(t, taker.TakeOver(t.Context(), h))
			assert.Greater(t, taker.Lease().Fence(), l.Fence())
			require.NoError(t, taker.UnlockContext(t.Context()))
			require.NoError(t, giver.LockContext(t.Context(), time.Minute))
			require.NoError(t, giver.UnlockContext(t.Context()))
		})
	}
}

func TestAHandoverWithoutAnAnswerMayWork(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	front, giver := behind(t, s, hangs)
	taker := newMutex(t, s.Pool(), "k", patient)
	l, err := giver.Acquire(t.Context())
	require.NoError(t, err)
	front.Hang(redistest.AtReply)
	h, err := l.HandOver(t.Context(), time.Minute)
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
	require.NoError(t, taker.TakeOver(t.Context(), h))
	front.Lift()
	_, err = l.HandOver(t.Context(), time.Minute)
	assert.ErrorIs(t, err, redimutex.ErrLost, "it was taken over meanwhile")
	assert.NoError(t, taker.Lease().Err())
	taker.Unlock()
}

func TestATakeOverWithoutAnAnswerIsFoundByItsRepeat(t *testing.T) {
	t.Parallel()
	for name, phase := range map[string]redistest.Phase{"it was done": redistest.AtReply, "it was not done": redistest.AtCommand} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			giver, other := newMutex(t, s.Pool(), "k", patient), newMutex(t, s.Pool(), "k", patient)
			front, taker := behind(t, s, hangs)
			h := handOver(t, giver, time.Minute)
			front.Hang(phase)
			require.ErrorIs(t, taker.TakeOver(t.Context(), h), redimutex.ErrUnavailable)
			assert.Nil(t, taker.Lease())
			require.ErrorIs(t, taker.UnlockContext(t.Context()), redimutex.ErrUnlocked)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, taker.TakeOver(ctx, h), context.DeadlineExceeded)
			front.Lift()
			require.NoError(t, taker.TakeOver(t.Context(), h))
			waits, leave := context.WithCancel(t.Context())
			go taker.LockContext(waits, 0) //nolint:errcheck // it does not get the lock
			redistest.Wait(t, "it is told that one waits", func() bool {
				infos := taker.Client().Locks()
				return len(infos) == 1 && infos[0].Waiting == 1
			})
			leave()
			token := taker.Lease().Token()
			assert.Equal(t, token, s.Get("k"))
			assert.ErrorIs(t, other.TakeOver(t.Context(), h), redimutex.ErrLost)
			require.NoError(t, taker.UnlockContext(t.Context()))
			redistest.Wait(t, "the lock is free", func() bool { return !s.Exists("k") })
		})
	}
}

func TestATakeOverThatFailsDoesNotChangeWhatTheWaitersAreSaidToBe(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := newMutex(t, s.Pool(), "k", patient)
	h := handOver(t, newMutex(t, s.Pool(), "k", patient), time.Minute)
	require.NoError(t, holder.TakeOver(t.Context(), h))
	client := newClient(t, s.Pool(), patient)
	waits, leave := context.WithCancel(t.Context())
	defer leave()
	go client.RWMutex("k").LockContext(waits, 0) //nolint:errcheck // it does not get the lock
	writer := func() bool {
		infos := client.Locks()
		return len(infos) == 1 && infos[0].Waiting == 1 && infos[0].Kind == "writer"
	}
	redistest.Wait(t, "the writer waits", writer)
	require.ErrorIs(t, client.Mutex("k").TakeOver(t.Context(), h), redimutex.ErrLost)
	assert.True(t, writer(), "%+v", client.Locks())
	holder.Unlock()
}

func TestATakeOverIsBesideTheWaitersOfItsProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	giver := newMutex(t, s.Pool(), "k", patient)
	giver.Lock()
	taker := newMutex(t, s.Pool(), "k", patient)
	waits, leave := context.WithCancel(t.Context())
	defer leave()
	go taker.LockContext(waits, 0) //nolint:errcheck // it does not get the lock
	infos := taker.Client().Locks
	redistest.Wait(t, "one waits", func() bool { return len(infos()) == 1 && infos()[0].Waiting == 1 })
	h, err := giver.Lease().HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	require.NoError(t, taker.TakeOver(t.Context(), h))
	require.Len(t, infos(), 1)
	assert.Equal(t, 1, infos()[0].Waiting)
	assert.NoError(t, infos()[0].Err, "it is held")
	taker.Unlock()
}

func TestATakeOverThatFailsLetsTheNextOfItsProcessIn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	other := newMutex(t, s.Pool(), "k", patient)
	h := handOver(t, newMutex(t, s.Pool(), "k", patient), time.Minute)
	require.NoError(t, other.TakeOver(t.Context(), h))
	other.Unlock()
	pool := redistest.NewBetween(s.Pool())
	taker := newMutex(t, pool, "k", patient)
	asks, goOn := make(chan struct{}), make(chan struct{})
	pool.Set(func(command redistest.Command) (any, error) {
		pool.Set(nil)
		close(asks)
		<-goOn
		return command.Run()
	})
	failed, next := make(chan error), make(chan error)
	go func() { failed <- taker.TakeOver(t.Context(), h) }()
	<-asks
	go func() { next <- taker.LockContext(t.Context(), 10*time.Second) }()
	locktest.WaitInLine(t, taker.Client(), 1)
	close(goOn)
	require.ErrorIs(t, <-failed, redimutex.ErrLost)
	require.NoError(t, <-next)
	taker.Unlock()
}

// A renewal that is under way during the hand-over neither reports the lock as taken nor changes it afterwards.
func TestARenewalUnderWayDoesNotDisturbTheHandOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	front, giver := behind(t, s, 9*time.Second)
	var hold atomic.Pointer[string]
	seen := make(chan struct{}, 100)
	front.On(func(command []string) redistest.Fate {
		token := hold.Load()
		if token == nil || !slices.Contains(command, *token) {
			return redistest.Fate{}
		}
		hold.Store(nil)
		seen <- struct{}{}
		return redistest.Fate{Delay: 30 * time.Millisecond}
	})
	taker := newMutex(t, s.Pool(), "k", patient)
	l, err := giver.Acquire(t.Context())
	require.NoError(t, err)
	token := l.Token()
	hold.Store(&token)
	extended := make(chan error)
	go func() { extended <- l.Extend(t.Context(), 10*time.Second) }()
	<-seen
	h, err := l.HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	if err := <-extended; err != nil {
		assert.NotErrorIs(t, err, redimutex.ErrLost)
	}
	assert.NotErrorIs(t, l.Err(), redimutex.ErrLost)
	require.NoError(t, taker.TakeOver(t.Context(), h))
	taker.Unlock()
}

// The lock was taken over without an answer. By the time of the repeat, a renewal may have raised its TTL.
func TestARepeatedTakeOverNeverShortensTheTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	front, taker := behind(t, s, hangs)
	h := handOver(t, newMutex(t, s.Pool(), "k", redimutex.WithFencing()), time.Minute)
	front.Hang(redistest.AtReply)
	require.ErrorIs(t, taker.TakeOver(t.Context(), h), redimutex.ErrUnavailable)
	s.Do("PEXPIRE", "k", time.Hour.Milliseconds())
	front.Lift()
	require.NoError(t, taker.TakeOver(t.Context(), h))
	assert.Greater(t, s.PTTL("k"), 59*time.Minute)
	require.NoError(t, taker.UnlockContext(t.Context()))
}

// With WithMinHold, a lock that is handed over stays locked for the minimum hold, even if no process takes it over.
func TestAHandOverKeepsTheMinimumHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	giver := newMutex(t, s.Pool(), "k", redimutex.WithMinHold(time.Hour))
	handOver(t, giver, time.Second)
	assert.Greater(t, s.PTTL("k"), 59*time.Minute)
	giver = newMutex(t, s.Pool(), "other", redimutex.WithMinHold(time.Second))
	handOver(t, giver, time.Hour)
	assert.Greater(t, s.PTTL("other"), 59*time.Minute)
}

func TestTheMinimumHoldOfTheGiverDoesNotBindTheTaker(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	h := handOver(t, newMutex(t, s.Pool(), "k", redimutex.WithMinHold(time.Hour)), time.Second)
	taker := newMutex(t, s.Pool(), "k")
	require.NoError(t, taker.TakeOver(t.Context(), h))
	taker.Unlock()
	assert.False(t, s.Exists("k"))
}

func TestAHandOverThatComesTooLateKeepsTheMinimumHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	giver := newMutex(t, s.Pool(), "k", redimutex.WithMinHold(time.Hour), patient)
	l, err := giver.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, giver.Client().Close())
	_, err = l.HandOver(t.Context(), time.Minute)
	require.ErrorIs(t, err, redimutex.ErrLost)
	assert.Greater(t, s.PTTL("k"), 59*time.Minute)
}

func TestAHandOverThatIsRepeatedAfterCloseSaysSo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	front, giver := behind(t, s, hangs)
	l, err := giver.Acquire(t.Context())
	require.NoError(t, err)
	front.Hang(redistest.AtReply)
	h, err := l.HandOver(t.Context(), time.Minute)
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
	front.Lift()
	require.NoError(t, giver.Client().Close())
	again, err := l.HandOver(t.Context(), time.Minute)
	assert.ErrorIs(t, err, redimutex.ErrClosed)
	assert.Equal(t, h, again)
	require.NoError(t, newMutex(t, s.Pool(), "k", patient).TakeOver(t.Context(), h))
}

// Close comes while the servers execute the TakeOver, so the Handover gets its votes back. A server may execute the TakeOver
// only when the others have given their votes back. Its vote must not stay for the TTL of the taker.
func TestATakeOverThatCloseOvertakesLeavesTheHandoverGood(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		servers int
		step    int64 // of the TakeOver, when Close comes
		late    bool  // one server is later than the others
	}{
		"one server": {1, 1, false}, "three servers": {3, 1, false}, "three servers, in the second step": {3, 2, false},
		"three servers, one of them late": {3, 1, true}, "three servers, one of them late in the second step": {3, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { overtaken(t, c.servers, c.step, c.late) })
		})
	}
}

func overtaken(t *testing.T, n int, step int64, late bool) {
	var servers []*miniredis.Miniredis
	var fronts []*redistest.Between
	var pools []redimutex.Pool
	for range n {
		server, pool := redistest.Virtual(t)
		front := redistest.NewBetween(pool)
		servers, fronts, pools = append(servers, server), append(fronts, front), append(pools, front)
	}
	opts := []redimutex.Option{redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(time.Minute)}
	l, err := newClientOver(t, pools, opts...).Mutex("k").Acquire(t.Context())
	require.NoError(t, err)
	synctest.Wait() // all servers have the lock,
	h, err := l.HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	synctest.Wait() // and now the Handover
	given, err := servers[0].Get("k")
	require.NoError(t, err)
	goOn, last := make(chan struct{}), make(chan struct{})
	for i, front := range fronts {
		let := goOn
		if late && i == n-1 {
			let = last
		}
		var steps atomic.Int64
		front.Set(func(command redistest.Command) (any, error) {
			if slices.Contains(command.Args, any("k")) && steps.Add(1) == step {
				<-let
			}
			return command.Run()
		})
	}
	client := redimutex.NewClient(pools, opts...)
	failed, closed := make(chan error, 1), make(chan error, 1)
	go func() { failed <- client.Mutex("k").TakeOver(t.Context(), h) }()
	synctest.Wait()
	go func() { closed <- client.Close() }()
	synctest.Wait()
	close(goOn)
	synctest.Wait()
	close(last)
	require.ErrorIs(t, <-failed, redimutex.ErrClosed)
	require.NoError(t, <-closed)
	for _, s := range servers {
		value, err := s.Get("k")
		require.NoError(t, err)
		assert.Equal(t, given, value)
		if n > 1 { // a single server keeps the Handover for the TTL of the taker
			assert.LessOrEqual(t, s.TTL("k"), time.Minute)
		}
	}
	next := newClientOver(t, pools, opts...).Mutex("k")
	require.ErrorIs(t, next.TryLockContext(t.Context()), redimutex.ErrLocked)
	require.NoError(t, next.TakeOver(t.Context(), h))
	next.Unlock()
}

func TestHandOversOfALeaseDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, bare := redistest.Virtual(t)
		pool := redistest.NewBetween(bare)
		l, err := newMutex(t, pool, "k", redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(time.Minute)).Acquire(t.Context())
		require.NoError(t, err)
		let := pool.Hold()
		first := make(chan error, 1)
		go func() {
			_, err := l.HandOver(t.Context(), time.Hour)
			first <- err
		}()
		synctest.Wait()
		began := time.Now()
		h, err := l.HandOver(t.Context(), time.Hour)
		assert.ErrorIs(t, err, redimutex.ErrUnavailable)
		assert.NotEqual(t, redimutex.Handover{}, h)
		assert.Zero(t, time.Since(began))
		let()
		require.NoError(t, <-first)
	})
}
