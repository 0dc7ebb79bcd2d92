// Package entrants has the libraries that are compared, each with the settings that its own documentation recommends for one
// server. Library.Settings describes them.
package entrants

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/lab/peers"
)

// A Library is one way to lock.
type Library struct {
	Name     string
	Settings string // in words
	Open     func(Env) (Locker, error)
}

// Ours reports whether l is a way to use redimutex.
func (l Library) Ours() bool { return strings.HasPrefix(l.Name, Redimutex) }

// An Env is what each library is opened with.
type Env struct {
	Addrs    []string // of the servers; most libraries use only the first
	TTL      time.Duration
	Permits  int       // of a semaphore
	Requests *Requests // counts the commands that the library sends
	Crowd    bool      // more goroutines wait than connections are allowed, until their ctx is cancelled
}

// A Locker is an open library.
type Locker interface {
	// Pair returns what one goroutine locks key with. A library without readers ignores writes.
	Pair(key string, writes bool) Pair
	Close() error
}

// A Pair is used by one goroutine at a time.
type Pair struct{ Lock, Unlock func(context.Context) error }

// Names of the libraries. Those of redimutex begin with the name Redimutex.
const (
	Redimutex  = "redimutex"
	NewCtx     = "redimutex, new ctx"
	Do         = "redimutex Do"
	Lock       = "redimutex Lock"
	Plain      = "redimutex plain pool"
	Mux        = "redimutex multiplexed"
	Queue      = "redimutex queue"
	Reuse      = "redimutex reuse"
	QueueReuse = "redimutex queue+reuse"
	Redlock    = "redimutex Redlock"
	RWMutex    = "redimutex RWMutex"
	RWQueue    = "redimutex RWMutex queue"
	RWMux      = "redimutex RWMutex queue, multiplexed"
	RWReuse    = "redimutex RWMutex reuse"
	Semaphore  = "redimutex Semaphore"
	SemQueue   = "redimutex Semaphore queue"
	All5       = "redimutex MutexAll of 5"

	Bare         = "bare redigo"
	Bare5        = "bare redigo, 5 in turn"
	Pipelines    = "5 bare pipelines"
	Readers      = "readers first, polling"
	Counting     = "counting, polling"
	Redsync      = "redsync"
	RedsyncEager = "redsync 16 ms"
	RedsyncPlain = "redsync plain pool"
	RedsyncGo    = "redsync go-redis"
	Redislock    = "redislock"
	Rueidislock  = "rueidislock"
	Ping         = "PING"
	List         = "BLPOP"
	Message      = "PUBLISH"
	Turns        = "turns"
	Sync         = "sync.RWMutex"
)

var (
	queue = redimutex.WithQueue()
	reuse = redimutex.WithLeaseReuse(10 * time.Millisecond)
)

// All has the libraries in the order of the tables.
var All = []Library{
	{Redimutex, "defaults, the pool of `NewPoolAt`; `LockContext` and `UnlockContext`, with one ctx for all that could be cancelled", ours(sameCtx)},
	{NewCtx, "the same, with a ctx of its own for each pair, made and cancelled within it", ours(newCtx)},
	{Do, "the same, `Do`; a wait is the whole call", ours(inDo)},
	{Lock, "the same, `Lock` and `Unlock`", ours(plainLock)},
	{Plain, "as redimutex, over a pool as redigo's documentation makes it", overPlain},
	{Mux, "`WithMultiplexing(1)`", multiplexed(sameCtx)},
	{Queue, "`WithQueue()`", ours(sameCtx, queue)},
	{Reuse, "`WithLeaseReuse(10 * time.Millisecond)`", ours(sameCtx, reuse)},
	{QueueReuse, "both", ours(sameCtx, queue, reuse)},
	{Redlock, "as redimutex, with a pool for each of five servers", redlock},
	{RWMutex, "`RLockContext` or `LockContext` of an `RWMutex`", ours(inRWMutex)},
	{RWQueue, "the same, `WithQueue()`", ours(inRWMutex, queue)},
	{RWMux, "the same, `WithMultiplexing(1)` as well: readers that leave together leave in one packet", multiplexed(inRWMutex, queue)},
	{RWReuse, "`RLockContext` or `LockContext` of an `RWMutex`, `WithLeaseReuse(4 * time.Second)`", ours(inRWMutex, redimutex.WithLeaseReuse(4*time.Second))},
	{Semaphore, "`Acquire` of a `Semaphore`, and `Release`", ours(inSemaphore)},
	{SemQueue, "the same, `WithQueue()`", ours(inSemaphore, queue)},
	{All5, "as redimutex, a `MutexAll` of 5 keys", ours(allOf5)},
	{Bare, "`SET key uuid NX PX` and a compare-and-delete by EVALSHA, with one `pool.Get` for each command; polls every 16 ms", bare},
	{Bare5, "the same with 5 keys, one after the other", bare5},
	{Pipelines, "on one connection for each of five servers the SET of bare redigo, all sent before the replies are read, and then its EVALSHA", pipelines},
	{Readers, "a script counts readers in the key, a writer is a SET NX: readers go first, no fairness; polls every 16 ms", byHand(readersFirst)},
	{Counting, "a script adds a token to a sorted set while fewer than the limit are in it; polls every 16 ms", byHand(counting)},
	{Redsync, "redsync over redigo, without a ctx; `WithTries` without limit, its default delay of 50 to 250 ms", overRedigo()},
	{RedsyncEager, "the same, `WithRetryDelay(16 * time.Millisecond)`", overRedigo(redsync.WithRetryDelay(peers.Eager))},
	{RedsyncPlain, "redsync, over a pool as that of redimutex plain pool", redsyncOverPlain},
	{RedsyncGo, "redsync over go-redis", overGoRedis},
	{Redislock, "redislock over go-redis, `LinearBackoff(16 * time.Millisecond)`, the shortest recommended", func(e Env) (Locker, error) {
		return peer{peers.Redislock(e.goRedis(), e.TTL)}, nil
	}},
	{Rueidislock, "`KeyMajority: 1`, `NoLoopTracking: true`, as its README has it for one server; `TryNextAfter: time.Second`, because a try that takes longer than the default of 20 ms can hang", func(e Env) (Locker, error) {
		l, err := peers.Rueidislock(e.Addrs[0], e.dial, e.TTL)
		return peer{l}, err
	}},
	{Ping, "no lock: a PING on one connection", ping},
	{List, "no lock: `BLPOP` waits for the `RPUSH` of the other, the least that a hand-over takes", list},
	{Message, "no lock: a script that compares a token and sends the message for which the other waits", message},
	{Turns, "no lock: readers and writers who know when it is their turn, and send one command when they leave; the last one's sends a message to the next", phases},
	{Sync, "no lock for several processes: what memory can do", func(Env) (Locker, error) { return new(local), nil }},
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
