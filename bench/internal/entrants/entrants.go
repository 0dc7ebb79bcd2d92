// Package peers gives the libraries that are compared the same face: open, lock, unlock, close.
// Each has the settings that its own documentation recommends for one server, and Settings says which.
package peers

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Library is one way to lock.
type Library struct {
	Name     string
	Settings string // in words
	Open     func(Env) (Locker, error)
}

// An Env is what all of them get.
type Env struct {
	Addr     string
	TTL      time.Duration
	Requests *Requests // counts what they send
	Cancel   bool      // the ctx will be cancelled while they wait
}

// A Locker is a library in one process.
type Locker interface {
	// Slot returns what one goroutine locks key with.
	Slot(key string) Slot
	Close() error
}

// A Slot is used by one goroutine at a time.
type Slot interface {
	// Lock waits until it has the lock, or ctx ends. ctx has a deadline that is far away, because
	// redislock would otherwise give up after a TTL. Without Env.Cancel, a library that can lock
	// without a ctx does so.
	Lock(ctx context.Context) error
	Unlock() error
}

const (
	// Connections is how many connections a process may have, where the library has a pool. It is
	// more than any case can use at once, but for the 10,000 waiters.
	Connections = 128

	// Eager is the poll interval of those that poll, where they leave it to us: the shortest that
	// redislock's documentation recommends.
	Eager = 16 * time.Millisecond
)

// Names of the libraries. Ours come first.
const (
	Redimutex      = "redimutex"
	RedimutexCtx   = "redimutex LockContext"
	RedimutexMux   = "redimutex multiplex"
	RedimutexQueue = "redimutex queue"
	RedimutexReuse = "redimutex reuse"
	RedimutexBoth  = "redimutex queue+reuse"
	Bare           = "bare redigo"
	Redsync        = "redsync"
	RedsyncEager   = "redsync 16 ms"
	RedsyncGoRedis = "redsync go-redis"
	Redislock      = "redislock"
	Rueidislock    = "rueidislock"
)

// All are the libraries, in the order of the tables.
var All = []Library{
	{Redimutex, "defaults, Lock and Unlock, as the other rows of ours", openRedimutex()},
	{RedimutexCtx, "defaults, LockContext with a ctx that could be cancelled", openWithContext},
	{RedimutexMux, "over Multiplex(pool, 1)", openMultiplexed},
	{RedimutexQueue, "WithQueue()", openRedimutex(queue)},
	{RedimutexReuse, "WithLeaseReuse(10 ms)", openRedimutex(reuse)},
	{RedimutexBoth, "WithQueue(), WithLeaseReuse(10 ms)", openRedimutex(queue, reuse)},
	{Bare, "SET NX PX and EVALSHA of a compare-and-delete by hand, one pool.Get a command; polls every 16 ms", openBare},
	{Redsync, "redigo; WithTries without limit, its default delay of 50 to 250 ms", openRedsync(overRedigo)},
	{RedsyncEager, "redigo; WithTries without limit, WithRetryDelay(16 ms)", openRedsync(overRedigo, eager)},
	{RedsyncGoRedis, "go-redis; WithTries without limit, its default delay of 50 to 250 ms", openRedsync(overGoRedis)},
	{Redislock, "go-redis; LinearBackoff(16 ms), the shortest recommended", openRedislock},
	{Rueidislock, "KeyMajority 1, NoLoopTracking, as its README has it for one server; TryNextAfter 1 s, because a try that takes longer than its 20 ms can hang", openRueidislock},
}

// Find returns the library with that name.
func Find(name string) (Library, bool) {
	for _, l := range All {
		if l.Name == name {
			return l, true
		}
	}
	return Library{}, false
}

// pool returns the pool of redigo that ours, the bare loop and redsync get.
func (e Env) pool() *redis.Pool {
	return &redis.Pool{
		MaxIdle: Connections, MaxActive: Connections, Wait: true,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", e.Addr, redis.DialContextFunc(e.Requests.Dial))
		},
	}
}
