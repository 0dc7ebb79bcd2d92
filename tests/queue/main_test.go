// Package queue_test holds what the queue of waiters promises, over real servers and the exported API
// alone.
package queue_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// TestMain runs the tests, or one worker process of theirs.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // retries log, and that is no news here
	if what := os.Getenv(workerVariable); what != "" {
		os.Exit(work(what))
	}
	os.Exit(m.Run())
}

// key is what all fight for.
const key = "k"

// slow is what a busy machine may take for what should take some milliseconds.
const slow = 5 * time.Second

// newMutex returns a Mutex of a Client of its own with a queue, as another process would have it.
func newMutex(t testing.TB, pool redimutex.Pool, opts ...redimutex.Option) *redimutex.Mutex {
	t.Helper()
	return newRedlock(t, []redimutex.Pool{pool}, opts...)
}

func newRedlock(t testing.TB, pools []redimutex.Pool, opts ...redimutex.Option) *redimutex.Mutex {
	t.Helper()
	c := redimutex.NewClient(pools, append([]redimutex.Option{redimutex.WithQueue()}, opts...)...)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c.Mutex(key)
}

// tickets returns how many wait in the queues on the server, however those are named.
func tickets(t testing.TB, s *redistest.Server) int {
	t.Helper()
	n := 0
	for _, name := range queues(t, s) {
		members, err := redis.Strings(s.Do("ZRANGE", name, 0, -1), nil)
		require.NoError(t, err)
		n += len(slices.DeleteFunc(members, func(m string) bool { return m == "*" })) // that stands for nobody
	}
	return n
}

func queues(t testing.TB, s *redistest.Server) (names []string) {
	t.Helper()
	for _, name := range s.Keys() {
		if s.Do("TYPE", name) == "zset" {
			names = append(names, name)
		}
	}
	return names
}

func waitTickets(t testing.TB, s *redistest.Server, n int) {
	t.Helper()
	redistest.Wait(t, fmt.Sprintf("%d waiters in the queue", n), func() bool { return tickets(t, s) == n })
}

// startWaiting has m wait for the lock, and returns when it is the nth in the queue of the server.
func startWaiting(t testing.TB, s *redistest.Server, m *redimutex.Mutex, n int) (got <-chan error) {
	t.Helper()
	locked := make(chan error, 1)
	go func() { locked <- m.LockContext(context.Background(), time.Minute) }()
	waitTickets(t, s, n)
	return locked
}

// subscribers returns how many connections are subscribed.
func subscribers(t testing.TB, s *redistest.Server) int {
	t.Helper()
	channels, err := redis.Strings(s.Do("PUBSUB", "CHANNELS"), nil)
	require.NoError(t, err)
	return len(channels)
}

func unlock(t testing.TB, m *redimutex.Mutex) {
	t.Helper()
	require.NoError(t, m.UnlockContext(context.Background()))
}
