package queue_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// queueLength returns how many wait in the queue of key.
func queueLength(t testing.TB, s *redistest.Server, key string) int {
	t.Helper()
	n, err := redis.Int(s.Do("ZCOUNT", server.QueueKey(key), 0, 3e15), nil) // the mark is behind that
	require.NoError(t, err)
	return n
}

// waitQueued waits until n wait in the queue of key.
func waitQueued(t testing.TB, s *redistest.Server, key string, n int) {
	t.Helper()
	redistest.Wait(t, fmt.Sprintf("%d waiters in the queue", n), func() bool { return queueLength(t, s, key) == n })
}

// calls returns how often clients or scripts have called a command.
func calls(t testing.TB, s *redistest.Server, command string) int {
	t.Helper()
	info, err := redis.String(s.Do("INFO", "commandstats"), nil)
	require.NoError(t, err)
	_, line, found := strings.Cut(info, "cmdstat_"+command+":calls=")
	if !found {
		return 0
	}
	figure, _, _ := strings.Cut(line, ",")
	n, err := strconv.Atoi(figure)
	require.NoError(t, err)
	return n
}

// subscribers returns how many connections are subscribed.
func subscribers(t testing.TB, s *redistest.Server) int {
	t.Helper()
	list, err := redis.String(s.Do("CLIENT", "LIST", "TYPE", "pubsub"), nil)
	require.NoError(t, err)
	return strings.Count(list, "id=")
}

// expired returns how many keys have expired on the server.
func expired(t testing.TB, s *redistest.Server) int {
	t.Helper()
	info, err := redis.String(s.Do("INFO", "stats"), nil)
	require.NoError(t, err)
	_, line, _ := strings.Cut(info, "expired_keys:")
	figure, _, _ := strings.Cut(line, "\r\n")
	n, err := strconv.Atoi(figure)
	require.NoError(t, err)
	return n
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

// outside is a pool that a test has come between, with a way to subscribe beside it.
type outside struct {
	*redistest.Between
	real *redis.Pool
}

func (o outside) Dial() (redis.Conn, error) { return o.real.Dial() }
