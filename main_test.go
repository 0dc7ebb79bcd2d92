package redimutex_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// TestMain runs the tests, or one worker process of theirs.
func TestMain(m *testing.M) {
	redistest.Main(m,
		redistest.Role{Variable: roleVariable, Run: work},
		redistest.Role{Variable: exampleVariable, Run: func(string) int { Example(); return 0 }},
	)
}

// goroutines returns how many goroutines are at work in this module, other than in its tests.
func goroutines() int {
	buf := make([]byte, 1<<24)
	n := 0
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if _, made, ok := strings.Cut(stack, "created by "); ok &&
			strings.HasPrefix(made, "github.com/redimutex/redimutex") && !strings.HasPrefix(made, "github.com/redimutex/redimutex_test") &&
			!strings.HasPrefix(made, "github.com/redimutex/redimutex/internal/redistest") {
			n++
		}
	}
	return n
}

// newMutex returns a Mutex whose Client is closed at the end of the test.
func newMutex(t testing.TB, pool redimutex.Pool, key string, opts ...redimutex.Option) *redimutex.Mutex {
	t.Helper()
	return newClient(t, []redimutex.Pool{pool}, opts...).Mutex(key)
}

func newClient(t testing.TB, pools []redimutex.Pool, opts ...redimutex.Option) *redimutex.Client {
	t.Helper()
	c := redimutex.NewClient(pools, opts...)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// exists reports whether key is on the server.
func exists(t testing.TB, s *redistest.Server, key string) bool {
	t.Helper()
	n, err := redis.Int(s.Do("EXISTS", key), nil)
	require.NoError(t, err)
	return n == 1
}

// pttl returns what is left of the TTL of key; negative where it has none or does not exist.
func pttl(t testing.TB, s *redistest.Server, key string) time.Duration {
	t.Helper()
	ms, err := redis.Int64(s.Do("PTTL", key), nil)
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

// ended reports whether a channel is closed.
func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// panicOf returns what f panics with, as an error.
func panicOf(t testing.TB, f func()) (err error) {
	t.Helper()
	defer func() {
		switch v := recover().(type) {
		case nil:
			t.Error("no panic")
		case error:
			err = v
		default:
			err = fmt.Errorf("%v", v)
		}
	}()
	f()
	return nil
}
