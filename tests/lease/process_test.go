package lease_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// The test binary is a worker process where this is set: to its role, the address and the TTL.
const roleVariable = "REDIMUTEX_TEST_WORKER"

// startWorker starts another process that uses the lock.
func startWorker(t *testing.T, role string, s *redistest.Server, ttl time.Duration) *redistest.Worker {
	t.Helper()
	return redistest.StartWorker(t, roleVariable, fmt.Sprintf("%s %s %s", role, s.Addr(), ttl))
}

// lockInAProcess is main of a worker process.
func lockInAProcess(what string) int {
	fields := strings.Fields(what)
	ttl, err := time.ParseDuration(fields[2])
	if err != nil {
		panic(err)
	}
	pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", fields[1]) }}
	m := redimutex.New(pool, "k", redimutex.WithTTL(ttl), redimutex.WithPollInterval(5*time.Millisecond))
	leash := make(chan struct{}, 1)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			leash <- struct{}{}
		}
		os.Exit(3)
	}()
	switch fields[0] {
	case "count":
		count(m, pool)
	case "hold":
		m.Lock()
		l := m.Lease()
		fmt.Println("held")
		<-leash
		lost := errors.Is(l.Err(), redimutex.ErrLost)
		err := m.UnlockContext(context.Background())
		fmt.Printf("lease lost: %t, Unlock lost: %t, done: %t\n", lost, errors.Is(err, redimutex.ErrLost), locktest.Ended(l.Done()))
	}
	return 0
}

// count raises the counter with 50 goroutines, each by reading it and writing one more.
func count(m *redimutex.Mutex, pool *redis.Pool) {
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			for range 4 {
				m.Lock()
				c := pool.Get()
				n, err := redis.Int(c.Do("GET", "n"))
				if err != nil && !errors.Is(err, redis.ErrNil) {
					panic(err)
				}
				if _, err := c.Do("SET", "n", n+1); err != nil {
					panic(err)
				}
				c.Close()
				m.Unlock()
			}
		})
	}
	group.Wait()
	fmt.Println("done")
}

func TestProcessesLoseNoUpdateUnderTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	workers := make([]*redistest.Worker, 4)
	for i := range workers {
		workers[i] = startWorker(t, "count", s, 30*time.Second)
	}
	for _, w := range workers {
		assert.Equal(t, "done", w.Hear())
	}
	assert.Equal(t, strconv.Itoa(4*50*4), s.Get("n"))
	assert.False(t, s.Exists("k"))
}

func TestLockOfAKilledProcessComesFreeWithItsTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const ttl = 2 * time.Second
	w := startWorker(t, "hold", s, ttl)
	require.Equal(t, "held", w.Hear())
	m := locktest.Mutex(t, s.Pool(), "k")
	assert.False(t, m.TryLock())
	w.Kill()
	killed := time.Now()
	require.NoError(t, m.LockContext(t.Context(), time.Minute))
	took := time.Since(killed)
	assert.Less(t, took, ttl+5*time.Second)
	t.Logf("recovered after %v, with a TTL of %v", took, ttl)
	m.Unlock()
}

// No lease excludes a paused holder. But when it wakes up it knows.
func TestProcessThatWasPausedForLongerThanItsLeaseKnowsOnWaking(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := locktest.Mutex(t, s.Pool(), "k")
	for range 5 {
		w := startWorker(t, "hold", s, 500*time.Millisecond)
		require.Equal(t, "held", w.Hear())
		w.Stop()
		require.NoError(t, m.LockContext(t.Context(), time.Minute), "the lease ends although its holder lives")
		w.Tell("look") // is waiting for it when it wakes up
		w.Continue()
		assert.Equal(t, "lease lost: true, Unlock lost: true, done: true", w.Hear())
		assert.Equal(t, m.Lease().Token(), s.Get("k"), "and our key is not touched")
		require.NoError(t, m.UnlockContext(t.Context()))
	}
}
