package queue_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
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
	"github.com/redimutex/redimutex/internal/server"
)

// fight has goroutines of several clients lock and unlock, and returns after so many holds.
func fight(clients []*redimutex.Client, goroutines, holds int, use func(*redimutex.Mutex)) {
	var group sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(holds))
	for _, c := range clients {
		for range goroutines {
			m := c.Mutex("k")
			group.Go(func() {
				for left.Add(-1) >= 0 {
					use(m)
				}
			})
		}
	}
	group.Wait()
}

// A release takes the next local waiter's place in the queue along.
func TestAHoldCostsOneRequestWhereProcessesFight(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	var clients []*redimutex.Client
	for range 3 {
		clients = append(clients, locktest.Client(t, []redimutex.Pool{s.Pool()}, redimutex.WithQueue(), redimutex.WithFencing()))
	}
	var inside atomic.Int64
	var fence int64
	use := func(m *redimutex.Mutex) {
		m.Lock()
		assert.EqualValues(t, 1, inside.Add(1))
		assert.Greater(t, m.Lease().Fence(), fence)
		fence = m.Lease().Fence()
		inside.Add(-1)
		m.Unlock()
	}
	fight(clients, 4, 200, use) // the subscribers come up
	const holds = 3000
	s.Do("CONFIG", "RESETSTAT")
	fight(clients, 4, holds, use)
	scripts := calls(t, s, "evalsha")
	t.Logf("%d scripts for %d holds", scripts, holds)
	assert.Less(t, scripts, holds*3/2, "the looks of those who wait long, and the first and last holds")
	redistest.Wait(t, "nothing is left but the fence", func() bool { return len(s.Keys()) == 1 })
}

// Whoever the place was taken for may be gone by then.
func TestThePlaceOfAWaiterWhoHasGoneIsGivenUp(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	var clients []*redimutex.Client
	for range 3 {
		clients = append(clients, locktest.Client(t, []redimutex.Pool{s.Pool()}, redimutex.WithQueue()))
	}
	var won atomic.Int64
	fight(clients, 4, 3000, func(m *redimutex.Mutex) {
		patience := time.Minute
		if rand.N(2) == 0 {
			patience = rand.N(5 * time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if m.LockContext(ctx, 0) == nil {
			won.Add(1)
			m.Unlock()
		}
	})
	t.Logf("%d of 3000 calls got the lock, %d claims expired", won.Load(), expired(t, s))
	redistest.Wait(t, "nothing is left", func() bool { return len(s.Keys()) == 0 })
	assert.Less(t, expired(t, s), 300, "a place that nobody wants costs the others nothing")
	assert.Positive(t, won.Load())
}

func TestMutexesOfOtherTermsTakeNoPlaceForEachOther(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	pools := []redimutex.Pool{s.Pool()}
	clients := []*redimutex.Client{locktest.Client(t, pools, redimutex.WithQueue()), locktest.Client(t, pools, redimutex.WithQueue())}
	var group sync.WaitGroup
	var inside atomic.Int64
	for _, c := range clients {
		for _, m := range []*redimutex.Mutex{c.Mutex("k"), c.Mutex("k", redimutex.WithOwner("other")), c.Mutex("k", redimutex.WithTTL(time.Second))} {
			group.Go(func() {
				for range 200 {
					m.Lock()
					assert.EqualValues(t, 1, inside.Add(1))
					inside.Add(-1)
					m.Unlock()
				}
			})
		}
	}
	group.Wait()
	redistest.Wait(t, "nothing is left", func() bool { return len(s.Keys()) == 0 })
}

func TestCloseGivesUpThePlaceOfTheNextWaiter(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	for range 30 {
		a, b := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithQueue()), locktest.Client(t, []redimutex.Pool{s.Pool()}, redimutex.WithQueue())
		var group sync.WaitGroup
		for range 4 {
			m, other := a.Mutex("k"), b.Mutex("k")
			group.Go(func() {
				for m.LockContext(t.Context(), 0) == nil {
					_ = m.UnlockContext(t.Context()) // Close may have come in between
				}
			})
			group.Go(func() {
				for range 20 {
					other.Lock()
					other.Unlock()
				}
			})
		}
		time.AfterFunc(rand.N(20*time.Millisecond), func() { a.Close() })
		group.Wait()
		a.Close()
		redistest.Wait(t, "nothing is left", func() bool { return len(s.Keys()) == 0 })
	}
}

func TestThePlaceOfTheOnlyWaiterIsGivenUpWhenHeLeavesDuringTheRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	pool := outside{redistest.NewBetween(s.Pool()), s.Pool()}
	c := locktest.Client(t, []redimutex.Pool{pool}, redimutex.WithQueue(), redimutex.WithOwner("first"))
	m := c.Mutex("k")
	m.Lock()
	other := newMutex(t, s.Pool())
	got := make(chan struct{})
	go func() { other.Lock(); close(got) }()
	waitQueued(t, s, "k", 1)
	s.Do("SET", "keep", "foreign", "PX", 60000)
	listening := queue(t, s, c.Mutex("keep"), 0) // keeps the subscriber up

	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() { waited <- c.Mutex("k").LockContext(ctx, 0) }()
	redistest.Wait(t, "the local waiter", func() bool { return c.Locks()[0].Waiting == 1 })
	placed := make(chan int, 1)
	pool.Set(func(run func() (any, error), command string, args []any) (any, error) {
		reply, err := run()
		if err == nil && len(args) > 8 && args[2] == "k" { // the releasing script, with a place
			pool.Set(nil)
			placed <- queueLength(t, s, "k")
			cancel()
			assert.ErrorIs(t, <-waited, context.Canceled)
		}
		return reply, err
	})
	m.Unlock()
	<-got
	assert.Equal(t, 1, <-placed)
	left := time.Now()
	redistest.Wait(t, "nobody is in the queue", func() bool { return queueLength(t, s, "k") == 0 })
	assert.Less(t, time.Since(left), slow, "and not only when the queue expires")
	other.Unlock()
	s.Do("DEL", "keep")
	listening.gets(time.Now())
}

// The hand-off lease of the next waiter runs while the one before waits for the reply to its release.
func TestATicketWhoseHandOffHasLapsedDuringTheReleaseIsNotTakenForTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	pool := outside{redistest.NewBetween(s.Pool()), s.Pool()}
	c := locktest.Client(t, []redimutex.Pool{pool}, redimutex.WithQueue())
	s.Do("SET", "keep", "foreign", "PX", 60000)
	listening := queue(t, s, c.Mutex("keep"), 0) // keeps the subscriber up
	m, next := c.Mutex("k"), c.Mutex("k")
	m.Lock()
	held := make(chan error, 1)
	go func() { next.Lock(); held <- next.UnlockContext(t.Context()) }()
	redistest.Wait(t, "the local waiter", func() bool { return c.Locks()[0].Waiting == 1 })
	lapsed := make(chan struct{})
	pool.Set(func(run func() (any, error), command string, args []any) (any, error) {
		reply, err := run()
		if err == nil && len(args) == 14 && args[2] == "k" { // the releasing script
			pool.Set(nil)
			assert.True(t, s.Exists("k"), "the lock was handed on")
			redistest.Wait(t, "the claim lapses", func() bool { return !s.Exists("k") })
			close(lapsed)
		}
		return reply, err
	})
	m.Unlock()
	<-lapsed
	assert.NoError(t, <-held, "the next one had the lock")
	s.Do("DEL", "keep")
	listening.gets(time.Now())
}

// Where the pre-queued ticket is of no use, the next waiter has one of its own, and nothing else is in the queue.
func TestAPlaceThatCannotBeUsedIsGivenUp(t *testing.T) {
	t.Parallel()
	const nodeTimeout = 300 * time.Millisecond
	for what, release := range map[string]func(run func() (any, error), quit, unlock func(), undone <-chan struct{}) (any, error){
		"the one that it was for has left, and the next has other options": func(run func() (any, error), quit, _ func(), _ <-chan struct{}) (any, error) {
			reply, err := run()
			quit()
			return reply, err
		},
		"the reply to the release is lost": func(run func() (any, error), _, _ func(), _ <-chan struct{}) (any, error) {
			_, _ = run()
			return nil, redistest.ErrCut
		},
		"the release is executed after the unlocker has gone": func(run func() (any, error), _, unlock func(), undone <-chan struct{}) (any, error) {
			unlock()
			<-undone
			return run()
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t)
			pool := outside{redistest.NewBetween(s.Pool()), s.Pool()}
			c := locktest.Client(t, []redimutex.Pool{pool}, redimutex.WithQueue(), redimutex.WithNodeTimeout(nodeTimeout))
			m := c.Mutex("k")
			m.Lock()
			m.Unlock() // the server knows the script from now on
			m.Lock()
			other := newMutex(t, s.Pool())
			got := make(chan struct{})
			go func() { other.Lock(); close(got) }()
			waitQueued(t, s, "k", 1)
			s.Do("SET", "keep", "foreign", "PX", 60000)
			listening := queue(t, s, c.Mutex("keep"), 0) // keeps the subscriber up
			first, quit := context.WithCancel(t.Context())
			waited, next := make(chan error, 1), make(chan error, 1)
			go func() { waited <- c.Mutex("k").LockContext(first, 0) }()
			redistest.Wait(t, "the first local waiter", func() bool { return c.Locks()[0].Waiting == 1 })
			last := c.Mutex("k", redimutex.WithOwner("last"))
			go func() { next <- last.LockContext(t.Context(), 0) }()
			redistest.Wait(t, "the second local waiter", func() bool { return c.Locks()[0].Waiting == 2 })

			unlocking, unlock := context.WithCancel(t.Context())
			defer unlock()
			undone := make(chan struct{})
			var undoing sync.Once
			var releasing atomic.Bool
			pool.Set(func(run func() (any, error), command string, args []any) (any, error) {
				switch {
				case len(args) != 14 || args[2] != "k": // not the releasing script
				case args[12] != "" && releasing.CompareAndSwap(false, true):
					return release(run, func() { quit(); assert.ErrorIs(t, <-waited, context.Canceled) }, unlock, undone)
				case args[10] != "":
					reply, err := run()
					undoing.Do(func() { close(undone) })
					return reply, err
				}
				return run()
			})
			unlocked := m.UnlockContext(unlocking)
			t.Log("Unlock:", unlocked)
			<-got
			quit()
			var waiting []string
			in := func(name string) bool { return strings.HasSuffix(name, "last") }
			redistest.Wait(t, "the last waiter is in the queue, alone", func() bool {
				waiting, _ = redis.Strings(s.Do("ZRANGEBYSCORE", server.QueueKey("k"), 0, 3e15), nil)
				return slices.ContainsFunc(waiting, in) && len(waiting) == 1
			})
			other.Unlock()
			require.NoError(t, <-next)
			last.Unlock()
			s.Do("DEL", "keep")
			listening.gets(time.Now())
		})
	}
}
