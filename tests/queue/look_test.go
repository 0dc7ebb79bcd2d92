package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	"github.com/redimutex/redimutex/internal/server"
)

// A waiter also looks by itself, because a message may be lost.

// until returns how long m takes to get the lock, in virtual time, and unlocks it.
func until(m *redimutex.Mutex) time.Duration {
	began := time.Now()
	for m.Lease() == nil && time.Since(began) < time.Minute {
		time.Sleep(time.Millisecond)
	}
	took := time.Since(began)
	m.Unlock()
	return took
}

// crowd puts dead waiters into the queue.
func crowd(t testing.TB, pool *redis.Pool, n int) {
	t.Helper()
	c := pool.Get()
	defer c.Close()
	for i := range n {
		_, err := c.Do("ZADD", server.QueueKey(key), i, fmt.Sprintf("redimutex:gone m 0 1000 token %d", i))
		require.NoError(t, err)
	}
}

// looking makes m wait. Each look sends its time to looks.
func looking(t testing.TB, pool redimutex.Pool, opts ...redimutex.Option) (m *redimutex.Mutex, looks <-chan time.Time) {
	t.Helper()
	at := make(chan time.Time, 1000)
	m = newMutex(t, pool, append(opts, redimutex.WithTrace(&redimutex.Trace{Attempt: func(e redimutex.Event) {
		at <- time.Now()
	}}))...)
	go m.LockContext(t.Context(), 0) //nolint:errcheck // the Client is closed at the end of the test
	return m, at
}

func TestTheMoreWaitTheLessOftenEachLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, pool := redistest.Virtual(t)
		require.NoError(t, m.Set(key, "a foreign client"))
		crowd(t, pool, 1000)
		_, looks := looking(t, pool, redimutex.WithTTL(time.Minute))
		for range 4 { // before it listens, and as soon as it does
			<-looks
		}
		first, second := <-looks, <-looks
		assert.InDelta(t, time.Second, second.Sub(first), float64(10*time.Millisecond))
	})
}

// While a look is under way, a message is not enough: the answer of the look comes first.
func TestAFarWaiterListensForARoundTripBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rtt = 300 * time.Millisecond
		t.Cleanup(func() { time.Sleep(rtt) }) // until the last command has ended
		m, pool := redistest.Virtual(t)
		require.NoError(t, m.Set(key, "a foreign client"))
		far := redistest.NewBetween(pool)
		far.Set(func(command redistest.Command) (any, error) {
			time.Sleep(rtt)
			return command.Run()
		})
		_, looks := looking(t, outside{far, pool}, redimutex.WithTTL(time.Minute))
		for range 4 { // as above
			<-looks
		}
		first, second := <-looks, <-looks
		assert.InDelta(t, 2*rtt+75*time.Millisecond, second.Sub(first), float64(10*time.Millisecond))
	})
}

// The last answer tells the waiter when the lock expires.
func TestAWaiterLooksWhenTheLockExpiresHoweverManyWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, pool := redistest.Virtual(t)
		require.NoError(t, m.Set(key, "a foreign client"))
		m.SetTTL(key, time.Hour)
		crowd(t, pool, 1000)
		waiter, looks := looking(t, pool, redimutex.WithTTL(time.Minute))
		for range 4 {
			<-looks
		}
		m.SetTTL(key, 1100*time.Millisecond) // the next look comes after a second at most
		assert.Less(t, until(waiter), 1150*time.Millisecond)
	})
}

func TestAWaiterLooksOnceASecondWhileTheDialOfItsSubscriberHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, pool := redistest.Virtual(t)
		require.NoError(t, m.Set(key, "a foreign client"))
		dial := pool.Dial
		var dials atomic.Int32
		pool.Dial = nil
		pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
			if dials.Add(1) > 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial()
		}
		waiter, looks := looking(t, pool, redimutex.WithTTL(10*time.Minute), redimutex.WithNodeTimeout(20*time.Second))
		<-looks
		m.Del(key)
		assert.Less(t, until(waiter), 1100*time.Millisecond)
	})
}

// When a process gets the lock, it no longer has its place in the queue.
func TestTheGoroutineBehindOneThatGotTheLockComesBehindTheOtherProcesses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	queued := func() *redimutex.Mutex {
		return newMutex(t, s.Pool(), redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(4*slow))
	}
	holder, a, b, c := queued(), queued(), queued(), queued()
	holder.Lock()
	a1 := startWaiting(t, s, a, 1)
	a2 := startWaiting(t, s, a, 1)
	locktest.WaitInLine(t, a.Client(), 2)
	gotB := startWaiting(t, s, b, 2)
	gotC := startWaiting(t, s, c, 3)
	unlock(t, holder)
	require.NoError(t, redistest.Receive(t, "the first", a1))
	unlock(t, a)
	require.NoError(t, redistest.Receive(t, "the second", gotB))
	waitQueued(t, s, key, 2)
	unlock(t, b)
	require.NoError(t, redistest.Receive(t, "the third", gotC))
	unlock(t, c)
	require.NoError(t, redistest.Receive(t, "the last", a2))
	unlock(t, a)
}

func TestAFarWaiterIsGivenTheLockForLonger(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", key, "a foreign client", "PX", 600_000)
	pool := s.Far(150 * time.Millisecond).Pool()
	m := newMutex(t, pool, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(time.Second))
	warm := m.Client().Mutex("warm")
	for range 2 {
		warm.Lock()
		warm.Unlock()
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- m.LockContext(ctx, 0) }()
	waitQueued(t, s, key, 1)
	places := queueOf(t, s, key)
	leave()
	<-left
	ms, err := strconv.Atoi(strings.Fields(places[0])[3])
	require.NoError(t, err)
	assert.GreaterOrEqual(t, ms, 1000+85+600)
}

// The Hub begins to listen for another lock of the Client, while the first try is under way.
func TestAWaiterQueuesAtOnceWhereItsClientHasBegunToListenDuringItsTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, pool := redistest.Virtual(t)
		require.NoError(t, m.Set(key, "a foreign client"))
		require.NoError(t, m.Set("another", "a foreign client"))
		front := lateListener{outside{redistest.NewBetween(pool), pool}, make(chan struct{})}
		c := newMutex(t, front, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10*time.Second)).Client()
		go c.Mutex("another").LockContext(t.Context(), 0) //nolint:errcheck // the Client is closed at the end of the test
		synctest.Wait()
		answer := make(chan struct{})
		front.Set(func(command redistest.Command) (any, error) {
			reply, err := command.Run()
			if slices.Contains(command.Args, any(key)) {
				<-answer
			}
			return reply, err
		})
		go c.Mutex(key).LockContext(t.Context(), 0) //nolint:errcheck // as above
		synctest.Wait()
		close(front.dial)
		synctest.Wait()
		require.False(t, m.Exists(server.QueueKey(key)))
		close(answer)
		synctest.Wait()
		assert.True(t, m.Exists(server.QueueKey(key)))
	})
}

// A lateListener dials its subscription only when dial is closed.
type lateListener struct {
	outside
	dial chan struct{}
}

func (l lateListener) Dial() (redis.Conn, error) {
	<-l.dial
	return l.outside.Dial()
}
