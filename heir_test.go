package redimutex_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
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
		clients = append(clients, newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithQueue(), redimutex.WithFencing()))
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
		clients = append(clients, newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithQueue()))
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
	clients := []*redimutex.Client{newClient(t, pools, redimutex.WithQueue()), newClient(t, pools, redimutex.WithQueue())}
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
		a, b := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithQueue()), newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithQueue())
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
	c := newClient(t, []redimutex.Pool{pool}, redimutex.WithQueue(), redimutex.WithOwner("first"))
	m := c.Mutex("k")
	m.Lock()
	other := newMutex(t, s.Pool(), "k", redimutex.WithQueue())
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
