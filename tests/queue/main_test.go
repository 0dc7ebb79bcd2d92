// Package queue_test holds what the queue of waiters promises, over real servers and the exported API
// alone.
package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// TestMain runs the tests, or one worker process of theirs.
func TestMain(m *testing.M) { redistest.Main(m, redistest.Role{Variable: workerVariable, Run: work}) }

// key is what all fight for.
const key = "k"

// slow is what a busy machine may take for what should take some milliseconds.
const slow = 5 * time.Second

// newMutex returns a Mutex of a Client of its own with a queue, as another process would have it.
func newMutex(t testing.TB, pool redimutex.Pool, opts ...redimutex.Option) *redimutex.Mutex {
	t.Helper()
	return locktest.Client(t, []redimutex.Pool{pool}, append([]redimutex.Option{redimutex.WithQueue()}, opts...)...).Mutex(key)
}

// startWaiting has m wait for the lock, and returns when it is the nth in the queue of the server.
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
