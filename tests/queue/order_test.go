package queue_test

import (
	"context"
	"slices"
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

// The first waiter of a Client has to subscribe before it can queue. Others that subscribe faster do not overtake it.
func TestSlowSubscriberKeepsItsPlace(t *testing.T) {
	t.Parallel()
	s, holder := startHeld(t)
	subscribe := make(chan struct{})
	var dials atomic.Int32
	pool := &redis.Pool{MaxIdle: 1, MaxActive: 1, Wait: true, Dial: func() (redis.Conn, error) {
		if dials.Add(1) > 1 {
			<-subscribe
		}
		return redis.Dial("tcp", s.Addr())
	}}
	t.Cleanup(func() { pool.Close() })
	c := locktest.Client(t, pool, redimutex.WithQueue())
	first := make(chan error, 1)
	go func() { first <- c.Mutex("k").LockContext(context.Background(), time.Minute) }()
	locktest.WaitInLine(t, c, 1)
	second := queue(t, s, newMutex(t, s.Pool()), 0)
	close(subscribe)
	waitQueued(t, s, "k", 2)
	members := queueOf(t, s, "k")
	holder.Unlock()
	require.NoError(t, <-first)
	assert.Contains(t, members[0], s.Get("k"))
	assert.Empty(t, second.got)
	s.Do("DEL", "k")
	second.gets(time.Now())
}

func TestQueueServesProcessesInOrderOfArrival(t *testing.T) {
	t.Parallel()
	s, holder := startHeld(t)
	workers := make([]*redistest.Worker, 5)
	for i := range workers {
		workers[i] = startWorker(t, s.Addr(), 500*time.Millisecond, 1)
		waitQueued(t, s, "k", i+1)
	}
	holder.Unlock()
	for i, w := range workers {
		require.Equal(t, "held", w.Hear())
		assert.Len(t, queueOf(t, s, "k"), len(workers)-i-1, "the others still wait")
		unlocks(t, w)
	}
}

func TestClientHasOnePlaceInTheQueueAndServesItsGoroutinesInOrder(t *testing.T) {
	t.Parallel()
	s, holder := startHeld(t)
	const clients, each = 3, 20
	var got []int // in the order of their holds; the lock protects it
	var group sync.WaitGroup
	for c := range clients {
		client := locktest.Client(t, s.Pool(), redimutex.WithQueue())
		for g := range each {
			group.Go(func() {
				m := client.Mutex("k")
				m.Lock()
				got = append(got, g*clients+c)
				m.Unlock()
			})
			locktest.WaitInLine(t, client, g+1)
		}
	}
	waitQueued(t, s, "k", clients)
	holder.Unlock()
	group.Wait()
	// Each goroutine of a client that gets its turn queues behind the other clients.
	perClient := make([][]int, clients)
	for _, n := range got {
		perClient[n%clients] = append(perClient[n%clients], n/clients)
	}
	for c, goroutines := range perClient {
		assert.Len(t, goroutines, each)
		assert.IsIncreasing(t, goroutines, "client %d", c)
	}
	for at, n := range got[:clients] {
		assert.Equal(t, at, n%clients, "the first of each client come first")
	}
}

func TestReleaseWakesOneWaiterAndNoMore(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "does not count commands")
	s := redistest.Start(t)
	const n = 12
	holder := locktest.Client(t, s.Pool(), redimutex.WithQueue())
	first, second := holder.Mutex("k"), holder.Mutex("other")
	first.Lock()
	second.Lock()
	var group sync.WaitGroup
	for range n {
		c := locktest.Client(t, s.Pool(), redimutex.WithQueue())
		for _, key := range []string{"k", "other"} {
			group.Go(func() {
				m := c.Mutex(key)
				m.Lock()
				m.Unlock() //nolint:staticcheck // nothing to do under the lock
			})
		}
	}
	waitQueued(t, s, "k", n)
	waitQueued(t, s, "other", n)
	assert.Equal(t, n, s.Subscribers(), "one connection for each Client, however many keys it waits for")
	before := s.Calls("publish")
	first.Unlock()
	second.Unlock()
	group.Wait()
	// A busy machine may let a hand-off or two lapse, and then the lock is handed off again.
	assert.InDelta(t, 2*n, s.Calls("publish")-before, n/2, "one message for each hand-off")
	assert.Equal(t, n, s.Subscribers(), "and no more messages were sent to anybody else")
}

func TestTryLockOvertakesNobodyWhoQueues(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "k", "a foreign client", "PX", 60000)
	waiter := newMutex(t, s.Pool())
	locked := startWaiting(t, s, waiter, 1)
	other := newMutex(t, s.Pool())
	assert.False(t, other.TryLock())
	s.Do("DEL", "k") // DEL hands the lock to no waiter
	assert.False(t, other.TryLock(), "it finds the lock free, or just handed over, and somebody before it")
	require.NoError(t, <-locked)
	assert.Empty(t, queueOf(t, s, "k"), "who tries once does not queue")
	unlock(t, waiter)
	assert.True(t, other.TryLock())
	other.Unlock()
}

// The more waiters there are, the less often each looks. And dead waiters stay in the queue until the lock is free.
func TestAWaiterLooksOnceASecondHoweverManyDeadOnesAreInTheQueue(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "does not count commands")
	const dead = 1000
	s := redistest.Start(t)
	s.Do("SET", key, "a foreign client", "PX", 600_000)
	got := startWaiting(t, s, newMutex(t, s.Pool(), redimutex.WithTTL(time.Minute)), 1)
	crowd(t, s.Pool(), dead)
	began, before := time.Now(), s.Calls("evalsha")
	redistest.Wait(t, "three looks", func() bool { return s.Calls("evalsha") > before+2 })
	assert.Less(t, time.Since(began), 20*time.Second, "which take three seconds on a machine at rest")
	s.Do("DEL", key)
	require.NoError(t, <-got)
	assert.Empty(t, queueOf(t, s, key))
}

// The node timeout is long, so that a far waiter does not miss its turn because the machine is late.
func TestFarWaitersGetTheirTurnInOrderOfArrival(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := newMutex(t, s.Pool())
	roundTrips := []time.Duration{400 * time.Millisecond, 200 * time.Millisecond, 0, 80 * time.Millisecond, 20 * time.Millisecond}
	var waiters []*redimutex.Mutex
	for _, rt := range roundTrips {
		waiters = append(waiters, newMutex(t, s.Far(rt/2).Pool(), redimutex.WithNodeTimeout(2*time.Second)))
	}
	require.NoError(t, holder.LockContext(t.Context(), time.Minute))
	turns := make(chan time.Duration, len(waiters))
	for i, m := range waiters {
		go func() {
			assert.NoError(t, m.LockContext(context.Background(), time.Minute))
			turns <- roundTrips[i]
			_ = m.UnlockContext(context.Background())
		}()
		waitQueued(t, s, key, i+1)
	}
	unlock(t, holder)
	var order []time.Duration
	for range waiters {
		order = append(order, <-turns)
	}
	require.Equal(t, roundTrips, order, "round trips of those who were served")
}

// Meanwhile the server may have called the ticket. Its message may still be on its way when the hand-off is over.
func TestATicketWhoseLookWasCutIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	s, holder := startHeld(t)
	proxy := s.Proxy()
	client := newMutex(t, proxy.Pool()).Client()
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- client.Mutex(key).LockContext(ctx, 0) }()
	waitQueued(t, s, key, 1)
	first := queueOf(t, s, key)
	look := proxy.Catch("EVALSHA")
	redistest.Receive(t, "a look", look.Arrived())
	second := make(chan error, 1)
	go func() { second <- client.Mutex(key).LockContext(t.Context(), time.Minute) }()
	locktest.WaitInLine(t, client, 1)
	cancel()
	require.Error(t, <-gaveUp)
	look.Release()
	redistest.Wait(t, "another ticket", func() bool { p := queueOf(t, s, key); return len(p) == 1 && p[0] != first[0] })
	unlock(t, holder)
	require.NoError(t, <-second)
}

// As above, but the waiter goes on. It can't know what the server did either.
func TestATicketWhoseLookHadNoAnswerIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	s, holder := startHeld(t)
	proxy := s.Proxy()
	got := startWaiting(t, s, newMutex(t, proxy.Pool(), redimutex.WithNodeTimeout(300*time.Millisecond)), 1)
	first := queueOf(t, s, key)
	look := proxy.Catch("EVALSHA", first[0])
	redistest.Receive(t, "a look", look.Arrived())
	redistest.Wait(t, "another ticket", func() bool { p := queueOf(t, s, key); return len(p) > 0 && !slices.Contains(p, first[0]) })
	look.Release()
	unlock(t, holder)
	require.NoError(t, <-got)
}

// The place belongs to the process. Otherwise a process whose goroutines give up early would never be served.
func TestAPlaceIsThatOfTheNextGoroutineInLineWhenTheFirstGivesUp(t *testing.T) {
	t.Parallel()
	s, holder := startHeld(t)
	a, b := newMutex(t, s.Pool()), newMutex(t, s.Pool())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- a.LockContext(ctx, 0) }()
	waitQueued(t, s, key, 1)
	place := queueOf(t, s, key)
	second := make(chan error, 1)
	go func() { second <- a.LockContext(t.Context(), time.Minute) }()
	locktest.WaitInLine(t, a.Client(), 2)
	other := startWaiting(t, s, b, 2)
	cancel()
	require.Error(t, <-gaveUp)
	places := queueOf(t, s, key)
	require.Len(t, places, 2)
	require.Equal(t, place[0], places[0])
	unlock(t, holder)
	select {
	case err := <-second:
		require.NoError(t, err)
	case <-other:
		t.Fatal("it came later")
	}
	unlock(t, a)
	require.NoError(t, <-other)
	unlock(t, b)
}
