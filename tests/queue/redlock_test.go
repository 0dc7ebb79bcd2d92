package queue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// queueServers returns n servers, and one set of pools for them each time that pools is called.
func queueServers(t *testing.T, n int) (servers []*redistest.Server, pools func() []redimutex.Pool) {
	t.Helper()
	for range n {
		servers = append(servers, redistest.Start(t))
	}
	return servers, func() []redimutex.Pool {
		all := make([]redimutex.Pool, n)
		for i, s := range servers {
			all[i] = s.Pool()
		}
		return all
	}
}

// With a poll interval that nobody would wait for, only a message or a look at the queue can be it.
func TestReleaseOnSeveralServersWakesAWaiter(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		servers, pools := queueServers(t, n)
		opts := []redimutex.Option{redimutex.WithQueue(), redimutex.WithTTL(time.Minute), redimutex.WithPollInterval(30 * time.Second)}
		holder, waiter := locktest.Client(t, pools(), opts...).Mutex("k"), locktest.Client(t, pools(), opts...).Mutex("k")
		var longest time.Duration
		for range 20 {
			holder.Lock()
			locked := make(chan error, 1)
			go func() { locked <- waiter.LockContext(context.Background(), time.Minute) }()
			// A server that missed the holder's try, because it was still locked, has no queue.
			redistest.Wait(t, "the waiter is in most queues", func() bool {
				in := 0
				for _, s := range servers {
					in += queueLength(t, s, "k")
				}
				return in > n/2
			})
			start := time.Now()
			require.NoError(t, holder.UnlockContext(t.Context()))
			require.NoError(t, <-locked)
			longest = max(longest, time.Since(start))
			require.NoError(t, waiter.UnlockContext(t.Context()))
		}
		assert.Less(t, longest, slow)
		t.Logf("%d servers: woken within %v", n, longest)
		for i, s := range servers {
			redistest.Wait(t, "nothing is left", func() bool { return len(s.Keys()) == 0 })
			assert.Zero(t, queueLength(t, s, "k"), "server %d", i)
		}
	}
}

// A name that stays in the queue of a server that was slow would be woken in the place of another.
func TestHolderIsInNoQueueAfterUnlock(t *testing.T) {
	t.Parallel()
	servers, pools := queueServers(t, 3)
	m := locktest.Client(t, pools(), redimutex.WithQueue()).Mutex("k")
	for _, s := range servers {
		s.Do("SET", "k", "foreign", "PX", 60000)
	}
	locked := make(chan error, 1)
	go func() { locked <- m.LockContext(context.Background(), time.Minute) }()
	for _, s := range servers {
		waitQueued(t, s, "k", 1)
	}
	servers[0].Do("DEL", "k")
	servers[1].Do("DEL", "k") // a majority is enough
	require.NoError(t, <-locked)
	assert.Equal(t, 1, queueLength(t, servers[2], "k"))
	servers[2].Do("PERSIST", server.QueueKey("k")) // or it would be empty by itself in the end
	require.NoError(t, m.UnlockContext(t.Context()))
	redistest.Wait(t, "it leaves the third queue as well", func() bool { return queueLength(t, servers[2], "k") == 0 })
}

func TestWaiterWhoHangsKeepsTheWakeUpsOfSeveralServersFromNobody(t *testing.T) {
	t.Parallel()
	servers, pools := queueServers(t, 3)
	opts := []redimutex.Option{redimutex.WithQueue(), redimutex.WithTTL(time.Minute)}
	holder := locktest.Client(t, pools(), opts...).Mutex("k")
	holder.Lock()
	// It listens, and does nothing about it.
	channel := "redimutex:hangs"
	for _, s := range servers {
		redistest.Wait(t, "the third server votes as well, or it would call the one that hangs", func() bool { return s.Exists("k") })
		c := s.Pool().Get()
		t.Cleanup(func() { c.Close() })
		require.NoError(t, c.Send("SUBSCRIBE", channel))
		require.NoError(t, c.Flush())
		_, err := c.Receive()
		require.NoError(t, err)
		s.Do("ZADD", server.QueueKey("k"), 1, channel+" 0 0 name")
		s.Do("PEXPIRE", server.QueueKey("k"), 60000)
	}
	waiter := locktest.Client(t, pools(), opts...).Mutex("k")
	locked := make(chan error, 1)
	go func() { locked <- waiter.LockContext(context.Background(), time.Minute) }()
	for _, s := range servers {
		waitQueued(t, s, "k", 2)
	}
	start := time.Now()
	holder.Unlock()
	require.NoError(t, <-locked)
	assert.Less(t, time.Since(start), slow)
	waiter.Unlock()
	for _, s := range servers {
		redistest.Wait(t, "it was called, and is out of the queue", func() bool { return len(s.Keys()) == 0 })
	}
}

func TestNobodyStarvesInTheQueuesOfSeveralServers(t *testing.T) {
	t.Parallel()
	servers, pools := queueServers(t, 3)
	const clients, each = 6, 15
	var group sync.WaitGroup
	var mu sync.Mutex
	inside := 0
	for range clients {
		m := locktest.Client(t, pools(), redimutex.WithQueue(), redimutex.WithFencing(), redimutex.WithNodeTimeout(2*time.Second)).Mutex("k")
		group.Go(func() {
			for range each {
				if !assert.NoError(t, m.LockContext(context.Background(), time.Minute)) {
					return
				}
				mu.Lock()
				inside++
				assert.Equal(t, 1, inside)
				mu.Unlock()
				mu.Lock()
				inside--
				mu.Unlock()
				assert.NoError(t, m.UnlockContext(context.Background()))
			}
		})
	}
	group.Wait()
	for _, s := range servers {
		redistest.Wait(t, "only the fence is left", func() bool { return len(s.Keys()) <= 1 })
		for _, key := range s.Keys() {
			assert.Positive(t, s.PTTL(key), key)
		}
	}
}

// A minority that is down must not keep a waiter from being woken by the others.
func TestWaiterIsWokenWithAServerDown(t *testing.T) {
	t.Parallel()
	servers, pools := queueServers(t, 3)
	opts := []redimutex.Option{redimutex.WithQueue(), redimutex.WithPollInterval(9 * time.Second)}
	holder, waiter := locktest.Client(t, pools(), opts...).Mutex("k"), locktest.Client(t, pools(), opts...).Mutex("k")
	servers[0].Kill()
	require.NoError(t, holder.LockContext(t.Context(), time.Minute))
	locked := make(chan error, 1)
	go func() { locked <- waiter.LockContext(context.Background(), time.Minute) }()
	for _, s := range servers[1:] {
		waitQueued(t, s, "k", 1)
	}
	start := time.Now()
	_ = holder.UnlockContext(t.Context())
	require.NoError(t, <-locked)
	assert.Less(t, time.Since(start), slow)
	_ = waiter.UnlockContext(t.Context())
}
