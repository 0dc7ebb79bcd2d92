// Package queue_test tests what the queue of waiters promises, over real servers and with the exported API alone.
package queue_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// TestMain runs the tests, or a worker process that they have started.
func TestMain(m *testing.M) { redistest.Main(m, redistest.Role{Variable: workerVariable, Run: work}) }

// key is the key that all of them want to lock.
const key = "k"

// slow is how long a busy machine may take for a few milliseconds of work.
const slow = 5 * time.Second

// newMutex returns a Mutex with a queue and a Client of its own, as in another process.
func newMutex(t testing.TB, pool redimutex.Pool, opts ...redimutex.Option) *redimutex.Mutex {
	t.Helper()
	return locktest.Client(t, pool, append([]redimutex.Option{redimutex.WithQueue()}, opts...)...).Mutex(key)
}

var (
	queueOf    = locktest.Queue
	waitQueued = locktest.WaitQueued
)

// startHeld starts a server, and a Mutex that has the lock.
func startHeld(t testing.TB) (*redistest.Server, *redimutex.Mutex) {
	t.Helper()
	s := redistest.Start(t)
	holder := newMutex(t, s.Pool())
	require.NoError(t, holder.LockContext(t.Context(), time.Minute))
	return s, holder
}

// startWaiting makes m wait for the lock, and returns when m is the nth in the queue of the server.
func startWaiting(t testing.TB, s *redistest.Server, m *redimutex.Mutex, n int) (got <-chan error) {
	t.Helper()
	locked := make(chan error, 1)
	go func() { locked <- m.LockContext(context.Background(), time.Minute) }()
	waitQueued(t, s, m.Key(), n)
	return locked
}

func unlock(t testing.TB, m *redimutex.Mutex) {
	t.Helper()
	require.NoError(t, m.UnlockContext(context.Background()))
}

// queues returns the names of all queues on the server.
func queues(t testing.TB, s *redistest.Server) (names []string) {
	t.Helper()
	for _, name := range s.Keys() {
		if s.Do("TYPE", name) == "zset" {
			names = append(names, name)
		}
	}
	return names
}

// An outside is a pool whose commands a test intercepts. A subscription goes around the test.
type outside struct {
	*redistest.Between
	Real *redis.Pool // exported, so that the library knows that the pool leads to a single server
}

func (o outside) Dial() (redis.Conn, error) { return o.Real.Dial() }

// If workerVariable is set, the test binary is a worker process. The value has the address of the server, the node timeout,
// and the number of Clients that want the lock.
const workerVariable = "REDIMUTEX_TEST_QUEUE_WORKER"

// startWorker starts a process whose Clients want the lock. Each says "held" when it has a valid lease. With the next line on
// standard input it unlocks, and says "unlocked".
func startWorker(t *testing.T, addr string, nodeTimeout time.Duration, clients int) *redistest.Worker {
	t.Helper()
	return redistest.StartWorker(t, workerVariable, fmt.Sprintf("%s %s %d", addr, nodeTimeout, clients))
}

// unlocks makes the worker unlock its lock.
func unlocks(t *testing.T, w *redistest.Worker) {
	t.Helper()
	w.Tell("go on")
	require.Equal(t, "unlocked", w.Hear())
}

// work is the main function of a worker process.
func work(what string) int {
	fields := strings.Fields(what)
	timeout, err := time.ParseDuration(fields[1])
	if err != nil {
		panic(err)
	}
	var clients int
	if _, err := fmt.Sscan(fields[2], &clients); err != nil {
		panic(err)
	}
	pool := &redis.Pool{MaxIdle: 10, MaxActive: 50, Wait: true, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", fields[0]) }}
	told := redistest.Told()
	done := make(chan struct{})
	for range clients {
		m := redimutex.New(pool, key, redimutex.WithQueue(), redimutex.WithTTL(10*time.Second), redimutex.WithNodeTimeout(timeout))
		go func() {
			m.Lock()
			if err := m.Lease().Err(); err != nil {
				fmt.Println(err)
			} else {
				fmt.Println("held")
			}
			<-told
			m.Unlock()
			fmt.Println("unlocked")
			done <- struct{}{}
		}()
	}
	for range clients {
		<-done
	}
	return 0
}
