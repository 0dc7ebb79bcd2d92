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
	Addrs    []string // of the servers; who uses one alone takes the first
	TTL      time.Duration
	Requests *Requests // counts what they send
	Crowd    bool      // more goroutines will wait than there may be connections, until their ctx is cancelled; else who can locks without a ctx
}

// connections is how many connections a process keeps, where the library has a pool. It is more than any case can use
// at once, but for the crowd that waits: that may have no more.
const connections = 128

// Names of the libraries. Ours come first.
const (
	RedimutexCtx     = "redimutex LockContext"
	RedimutexNewCtx  = "redimutex LockContext, new ctx"
	RedimutexDo      = "redimutex Do"
	Redimutex        = "redimutex"
	RedimutexPlain   = "redimutex plain pool"
	RedimutexMux     = "redimutex multiplex"
	RedimutexRedlock = "redimutex Redlock"
	RedimutexQueue   = "redimutex queue"
	RedimutexReuse   = "redimutex reuse"
	RedimutexBoth    = "redimutex queue+reuse"
	Bare             = "bare redigo"
	Redsync          = "redsync"
	RedsyncEager     = "redsync 16 ms"
	RedsyncPlain     = "redsync plain pool"
	RedsyncGoRedis   = "redsync go-redis"
	Redislock        = "redislock"
	Rueidislock      = "rueidislock"
)

var (
	queue = redimutex.WithQueue()
	reuse = redimutex.WithLeaseReuse(10 * time.Millisecond)
)

// All are the libraries, in the order of the tables.
var All = []Library{
	{RedimutexCtx, "defaults, LockContext and UnlockContext, with one ctx for all that could be cancelled", usual(sameCtx)},
	{RedimutexNewCtx, "the same, with a ctx of its own for each pair", usual(newCtx)},
	{RedimutexDo, "defaults, Do with a ctx that could be cancelled; a wait is the whole call", usual(inDo)},
	{Redimutex, "defaults, Lock and Unlock, as the rows of ours below", ours()},
	{RedimutexPlain, "as redimutex LockContext, over a pool as redigo's documentation makes it", plain},
	{RedimutexMux, "WithMultiplexing(1)", multiplexed},
	{RedimutexRedlock, "as redimutex LockContext, with a pool for each of five servers", redlock},
	{RedimutexQueue, "WithQueue()", ours(queue)},
	{RedimutexReuse, "WithLeaseReuse(10 ms)", ours(reuse)},
	{RedimutexBoth, "WithQueue(), WithLeaseReuse(10 ms)", ours(queue, reuse)},
	{Bare, "SET NX PX and EVALSHA of a compare-and-delete by hand, one pool.Get a command; polls every 16 ms", func(e Env) (peers.Library, error) {
		return peers.Bare(e.pool(), e.TTL), nil
	}},
	{Redsync, "redigo; WithTries without limit, its default delay of 50 to 250 ms", overRedigo()},
	{RedsyncEager, "redigo; WithTries without limit, WithRetryDelay(16 ms)", overRedigo(redsync.WithRetryDelay(peers.Eager))},
	{RedsyncPlain, "redigo, over a pool as redigo's documentation makes it", func(e Env) (peers.Library, error) {
		return e.overRedigo(e.plain()), nil
	}},
	{RedsyncGoRedis, "go-redis; WithTries without limit, its default delay of 50 to 250 ms", overGoRedis},
	{Redislock, "go-redis; LinearBackoff(16 ms), the shortest recommended", func(e Env) (peers.Library, error) {
		return peers.Redislock(e.goRedis(), e.TTL), nil
	}},
	{Rueidislock, "KeyMajority 1, NoLoopTracking, as its README has it for one server; TryNextAfter 1 s, because a try that takes longer than its 20 ms can hang", func(e Env) (peers.Library, error) {
		return peers.Rueidislock(e.Addrs[0], e.dial, e.TTL)
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

func (e Env) dial(ctx context.Context) (net.Conn, error) {
	return e.Requests.Dial(ctx, "tcp", e.Addrs[0])
}

// pool returns the pool of redigo that the bare loop and redsync get.
func (e Env) pool() *redis.Pool { return e.sized(peers.Pool(e.dial, 0)) }

// ourPool is what NewPool makes, but for the size.
func (e Env) ourPool(addr string) *redis.Pool {
	return e.sized(redimutex.NewPoolAt("tcp", addr, redis.DialContextFunc(e.Requests.Dial)))
}

func (e Env) sized(p *redis.Pool) *redis.Pool {
	p.MaxIdle = connections
	if e.Crowd {
		p.MaxActive, p.Wait = connections, true
	}
	return p
}

// plain is a pool as the documentation of redigo makes it.
func (e Env) plain() *redis.Pool {
	return &redis.Pool{
		MaxIdle:     3,
		IdleTimeout: 240 * time.Second,
		Dial: func() (redis.Conn, error) {
			return redis.Dial("tcp", e.Addrs[0], redis.DialContextFunc(e.Requests.Dial))
		},
		TestOnBorrow: func(c redis.Conn, used time.Time) error {
			if time.Since(used) < time.Minute {
				return nil
			}
			_, err := c.Do("PING")
			return err
		},
	}
}

// goRedis returns the client that redislock gets, and redsync in one of its rows.
func (e Env) goRedis() *goredis.Client {
	o := peers.GoRedis(e.dial)
	o.PoolSize = connections
	o.PoolTimeout = time.Hour // it would else fail where the others wait for a connection
	return goredis.NewClient(o)
}

func overRedigo(opts ...redsync.Option) func(Env) (peers.Library, error) {
	return func(e Env) (peers.Library, error) { return e.overRedigo(e.pool(), opts...), nil }
}

func (e Env) overRedigo(pool *redis.Pool, opts ...redsync.Option) peers.Library {
	return e.redsync(redsyncredigo.NewPool(pool), pool, opts...)
}

func overGoRedis(e Env) (peers.Library, error) {
	client := e.goRedis()
	return e.redsync(redsyncgoredis.NewPool(client), client), nil
}

func (e Env) redsync(pool redsyncredis.Pool, closer io.Closer, opts ...redsync.Option) peers.Library {
	opts = append([]redsync.Option{redsync.WithExpiry(e.TTL), peers.Patient}, opts...)
	l := peers.RedsyncOver([]redsyncredis.Pool{pool}, []io.Closer{closer}, opts...)
	if !e.Crowd {
		l = uncancelled{l}
	}
	return l
}

// uncancelled locks without the ctx of its caller.
type uncancelled struct{ peers.Library }

type uncancelledSlot struct{ peers.Slot }

func (u uncancelled) Slot(key string) peers.Slot     { return uncancelledSlot{u.Library.Slot(key)} }
func (u uncancelledSlot) Lock(context.Context) error { return u.Slot.Lock(context.Background()) }
