// Package entrants is the libraries that are compared, each with the settings that its own documentation
// recommends for one server. Settings says which.
package entrants

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/lab/peers"
)

// A Library is one way to lock.
type Library struct {
	Name     string
	Settings string // in words
	Open     func(Env) (peers.Library, error)
}

// An Env is what all of them get.
type Env struct {
	Addr     string
	TTL      time.Duration
	Requests *Requests // counts what they send
	Cancel   bool      // the ctx will be cancelled while they wait; else those that can lock without one
}

// connections is how many connections a process may have, where the library has a pool. It is more than
// any case can use at once, but for the 10,000 waiters.
const connections = 128

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

var (
	queue = redimutex.WithQueue()
	reuse = redimutex.WithLeaseReuse(10 * time.Millisecond)
)

// All are the libraries, in the order of the tables.
var All = []Library{
	{Redimutex, "defaults, Lock and Unlock, as the other rows of ours", ours()},
	{RedimutexCtx, "defaults, LockContext with a ctx that could be cancelled", withContext},
	{RedimutexMux, "over Multiplex(pool, 1)", multiplexed},
	{RedimutexQueue, "WithQueue()", ours(queue)},
	{RedimutexReuse, "WithLeaseReuse(10 ms)", ours(reuse)},
	{RedimutexBoth, "WithQueue(), WithLeaseReuse(10 ms)", ours(queue, reuse)},
	{Bare, "SET NX PX and EVALSHA of a compare-and-delete by hand, one pool.Get a command; polls every 16 ms", func(e Env) (peers.Library, error) {
		return peers.Bare(e.pool(), e.TTL), nil
	}},
	{Redsync, "redigo; WithTries without limit, its default delay of 50 to 250 ms", overRedigo()},
	{RedsyncEager, "redigo; WithTries without limit, WithRetryDelay(16 ms)", overRedigo(redsync.WithRetryDelay(peers.Eager))},
	{RedsyncGoRedis, "go-redis; WithTries without limit, its default delay of 50 to 250 ms", overGoRedis},
	{Redislock, "go-redis; LinearBackoff(16 ms), the shortest recommended", func(e Env) (peers.Library, error) {
		return peers.Redislock(e.goRedis(), e.TTL), nil
	}},
	{Rueidislock, "KeyMajority 1, NoLoopTracking, as its README has it for one server; TryNextAfter 1 s, because a try that takes longer than its 20 ms can hang", func(e Env) (peers.Library, error) {
		return peers.Rueidislock(e.Addr, e.dial, e.TTL)
	}},
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

func (e Env) dial(ctx context.Context) (net.Conn, error) { return e.Requests.Dial(ctx, "tcp", e.Addr) }

// pool returns the pool of redigo that ours, the bare loop and redsync get.
func (e Env) pool() *redis.Pool {
	p := peers.Pool(e.dial, 0)
	p.MaxIdle, p.MaxActive, p.Wait = connections, connections, true
	return p
}

// goRedis returns the client that redislock gets, and redsync in one of its rows.
func (e Env) goRedis() *goredis.Client {
	o := peers.GoRedis(e.dial)
	o.PoolSize = connections
	o.PoolTimeout = time.Hour // it would else fail where the others wait for a connection
	return goredis.NewClient(o)
}

func ours(opts ...redimutex.Option) func(Env) (peers.Library, error) {
	return func(e Env) (peers.Library, error) {
		pool := e.pool()
		return e.ours(pool, []io.Closer{pool}, opts...), nil
	}
}

func (e Env) ours(pool redimutex.Pool, closers []io.Closer, opts ...redimutex.Option) peers.Library {
	opts = append([]redimutex.Option{redimutex.WithTTL(e.TTL)}, opts...)
	return peers.Redimutex(redimutex.NewClient([]redimutex.Pool{pool}, opts...), !e.Cancel, closers...)
}

// withContext has every Lock watch a ctx.
func withContext(e Env) (peers.Library, error) {
	e.Cancel = true
	return ours()(e)
}

// multiplexed uses one connection, which is enough for a server that has one thread.
func multiplexed(e Env) (peers.Library, error) {
	pool := e.pool()
	shared := redimutex.Multiplex(pool, 1)
	return e.ours(shared, []io.Closer{shared, pool}), nil
}

func overRedigo(opts ...redsync.Option) func(Env) (peers.Library, error) {
	return func(e Env) (peers.Library, error) {
		pool := e.pool()
		return e.redsync(redsyncredigo.NewPool(pool), pool, opts...), nil
	}
}

func overGoRedis(e Env) (peers.Library, error) {
	client := e.goRedis()
	return e.redsync(redsyncgoredis.NewPool(client), client), nil
}

func (e Env) redsync(pool redsyncredis.Pool, closer io.Closer, opts ...redsync.Option) peers.Library {
	opts = append([]redsync.Option{redsync.WithExpiry(e.TTL), peers.Patient}, opts...)
	l := peers.RedsyncOver([]redsyncredis.Pool{pool}, []io.Closer{closer}, opts...)
	if !e.Cancel {
		l = uncancelled{l}
	}
	return l
}

// uncancelled locks without the ctx of its caller.
type uncancelled struct{ peers.Library }

type uncancelledSlot struct{ peers.Slot }

func (u uncancelled) Slot(key string) peers.Slot     { return uncancelledSlot{u.Library.Slot(key)} }
func (u uncancelledSlot) Lock(context.Context) error { return u.Slot.Lock(context.Background()) }
