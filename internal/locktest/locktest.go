// Package locktest is shared by all tests of the exported API: Clients that end with the test, and servers for a Redlock.
package locktest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// Client returns a Client of one server, as ClientOver does of several.
func Client(t testing.TB, pool redimutex.Pool, opts ...redimutex.Option) *redimutex.Client {
	t.Helper()
	return ClientOver(t, []redimutex.Pool{pool}, opts...)
}

// ClientOver returns a Client of several servers. It is closed at the end of the test. Its default TTL is ten minutes: with that
// of the library, the node timeout would be half a second, which a busy machine may miss. It is longer than the patience of
// redistest.Wait, so that a test that waits for a key to go does not take its expiry for a release.
func ClientOver(t testing.TB, pools []redimutex.Pool, opts ...redimutex.Option) *redimutex.Client {
	t.Helper()
	c := redimutex.NewClient(pools, append([]redimutex.Option{redimutex.WithTTL(10 * time.Minute)}, opts...)...)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Mutex returns a Mutex of a Client of its own, as another process would have it.
func Mutex(t testing.TB, pool redimutex.Pool, key string, opts ...redimutex.Option) *redimutex.Mutex {
	t.Helper()
	return Client(t, pool, opts...).Mutex(key)
}

// An Acquire is a method that acquires a lock and returns its Lease, such as Mutex.Acquire and RWMutex.TryRAcquire.
type Acquire = func(context.Context) (*redimutex.Lease, error)

// Queue returns the waiters in the queue of a key on a server, the first in line first.
func Queue(t testing.TB, s *redistest.Server, key string) []string {
	t.Helper()
	waiters, err := redis.Strings(s.Do("ZRANGE", server.QueueKey(key), 0, -1), nil)
	require.NoError(t, err)
	return waiters
}

// WaitQueued waits until there are n waiters in the queue of a key.
func WaitQueued(t testing.TB, s *redistest.Server, key string, n int) {
	t.Helper()
	redistest.Wait(t, fmt.Sprintf("%d waiters in the queue", n), func() bool { return len(Queue(t, s, key)) == n })
}

// WaitInLine waits until n calls of a Client wait for their locks.
func WaitInLine(t testing.TB, c *redimutex.Client, n int) {
	t.Helper()
	redistest.Wait(t, fmt.Sprintf("%d calls wait", n), func() bool { return c.Stats().Waiting == n })
}

// Ended reports whether a channel is closed.
func Ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// PanicOf returns what f panics with, as an error; nil if it does not.
func PanicOf(f func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case error:
			err = v
		default:
			err = fmt.Errorf("%v", v)
		}
	}()
	f()
	return nil
}

// Goroutines returns how many goroutines run this module's code, other than those that its tests have started.
func Goroutines() int {
	const module = "github.com/redimutex/redimutex"
	buf := make([]byte, 1<<24)
	n := 0
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		ours := strings.Contains(stack, module)
		for _, tests := range []string{"_test.", "testing.", "/internal/redistest.", "/internal/locktest."} {
			ours = ours && !strings.Contains(stack, tests)
		}
		if ours {
			n++
		}
	}
	return n
}

// OddKeys contain everything that could end a string, a script or a line.
var OddKeys = []string{
	"'", `"`, "\\", "\n", "\r\nDEL x\r\n", "\x00", "\xff\xfe", "]]", "--[[", "}", "{", "{}", "{a}", "}{", "a}b{c}", " ", "KEYS[1]", "%s%d%n", "$(reboot)",
	"') redis.call('FLUSHALL') --", `" .. redis.call("FLUSHALL") .. "`, "return 1", "*3\r\n$3\r\nSET\r\n", "ключ", strings.Repeat("x", 70000),
}

// Servers are independent of each other, as Redlock requires.
type Servers []*redistest.Server

// Start starts n servers.
func Start(t testing.TB, n int) Servers {
	t.Helper()
	all := make(Servers, n)
	for i := range all {
		all[i] = redistest.Start(t)
	}
	return all
}

// Pools returns new pools, as another process would have. Both results are the same pools.
func (s Servers) Pools() (pools []*redis.Pool, asPools []redimutex.Pool) {
	for _, server := range s {
		p := server.Pool()
		pools, asPools = append(pools, p), append(asPools, p)
	}
	return pools, asPools
}

// Fronts starts a Front of each server, and returns new pools over the Fronts.
func (s Servers) Fronts(t testing.TB) (fronts []*redistest.Front, pools []redimutex.Pool) {
	t.Helper()
	for _, server := range s {
		f := redistest.NewFront(t, server)
		fronts, pools = append(fronts, f), append(pools, f.Pool())
	}
	return fronts, pools
}

// All reports whether every server has this value under the key; "" stands for a key that is free.
func (s Servers) All(key, value string) bool {
	return !slices.ContainsFunc(s, func(server *redistest.Server) bool { return server.Get(key) != value })
}

// Everywhere waits until all servers have the lock, and not only a majority. If the try passed over a server that was slow for
// a moment, an extension to ttl regains its vote.
func (s Servers) Everywhere(t testing.TB, key string, l *redimutex.Lease, ttl time.Duration) {
	t.Helper()
	looks := 0
	redistest.Wait(t, "all servers have the lock", func() bool {
		if looks++; looks%100 == 0 {
			require.NoError(t, l.Extend(t.Context(), ttl))
		}
		return s.All(key, l.Token())
	})
}

// Client returns a Client over all of the servers, with pools of its own.
func (s Servers) Client(t testing.TB, opts ...redimutex.Option) *redimutex.Client {
	t.Helper()
	_, pools := s.Pools()
	return ClientOver(t, pools, opts...)
}

// NoOrphans requires that the server has no key, now that no process holds a lock. It waits, because what a try of unknown
// outcome has left is released soon.
func NoOrphans(t testing.TB, s *redistest.Server, pool *redis.Pool) {
	t.Helper()
	for range 2 { // twice: a release that the first look did not wait for may still be under way
		settle(t, s, pool)
		redistest.Wait(t, "no keys without an owner", func() bool { return len(s.Keys()) == 0 })
	}
}

// settle waits until everything that was sent to s over pool has been executed, and was answered.
func settle(t testing.TB, s *redistest.Server, pool *redis.Pool) {
	t.Helper()
	for range 3 { // one turn of the server's event loop executes what all connections have sent
		s.Do("PING")
	}
	redistest.Wait(t, "the pool to be idle", func() bool { return pool.ActiveCount() == pool.IdleCount() })
}

// Empty waits until no server has a key.
func (s Servers) Empty(t testing.TB, pools []*redis.Pool) {
	t.Helper()
	for i, server := range s {
		NoOrphans(t, server, pools[i])
	}
}
