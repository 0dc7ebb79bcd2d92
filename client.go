package redimutex

import (
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/lock"
	"github.com/redimutex/redimutex/internal/mux"
	"github.com/redimutex/redimutex/internal/server"
)

// A Client is what the locks of one process share: the servers, the line of goroutines for each key, and the renewal of all
// leases. Make one Client for a set of servers and keep it. It is safe for concurrent use, and must not be copied. It starts
// goroutines only for work. Those of [WithQueue] stay seven seconds longer, those of [WithMultiplexing] two to four minutes.
type Client struct {
	config    *config
	pools     []Pool
	engine    *lock.Engine
	shared    []*mux.Pool // WithMultiplexing, one for each server
	observers observers
	warned    sync.Map // keys for which a failure was logged within the last second

	acquired, contended, released, failed, waitTime, holdTime atomic.Int64 // see Stats
}

// NewClient returns a Client over independent servers, with one pool for each: a single server, or N servers for Redlock,
// where a majority decides. The options apply to all its locks. It does not connect. Close does not close the pools.
//
// It panics if there are no pools or more than 64, if one is nil or given twice, or if an [Option] makes no sense.
func NewClient(pools []Pool, opts ...Option) *Client {
	must(len(pools) > 0, "NewClient needs a pool for each server, and got none")
	must(len(pools) <= maxServers, "NewClient got %d pools, and takes %d at most", len(pools), maxServers)
	c := &Client{pools: slices.Clone(pools)}
	c.observers.all.Store(new([]*Trace))
	c.config = c.configured(&defaultConfig, opts)
	servers := make([]server.Pool, len(pools))
	for i, p := range pools {
		v := reflect.ValueOf(p)
		must(v.IsValid() && (v.Kind() != reflect.Pointer && v.Kind() != reflect.Func || !v.IsNil()), "pool %d is nil", i)
		must(!v.Comparable() || !slices.Contains(pools[:i], p), "pool %d is there twice, and each has to be that of another server", i)
		servers[i] = p
		if n := c.config.conns; n > 0 {
			source := conn.Of(p)
			must(!source.Cluster, "WithMultiplexing(%d): a cluster has a different server for each key, so its connections can't be shared; leave it out", n)
			must(source.Dial != nil, "WithMultiplexing(%d): a %T can't dial a connection of its own; give the *redis.Pool itself, or a method Dial() (redis.Conn, error)", n, p)
			shared := mux.New(source, n, c.config.terms.Timeout)
			c.shared, servers[i] = append(c.shared, shared), shared
		}
	}
	c.engine = lock.New(servers)
	return c
}

// Pools returns the pools that the Client was made with, for code that uses the same servers.
func (c *Client) Pools() []Pool { return slices.Clone(c.pools) }

func (c *Client) shares(other *Client) (same bool) {
	defer func() { _ = recover() }() // a Pool may be of a type that can't be compared
	return c == other || slices.Equal(c.pools, other.pools)
}

// Mutex returns a Mutex for key, with the options of the Client and those given here. Mutexes of one Client with the same key
// are different objects that exclude each other. The key is used on the server as it is.
//
// It panics if an option makes no sense, if the key is empty, or if it begins with "redimutex:", as keys of this library do.
func (c *Client) Mutex(key string, opts ...Option) *Mutex {
	c.mustBeKey("a Mutex", key)
	return &Mutex{exclusive: exclusive{object{client: c, config: c.configured(c.config, opts), key: key}}}
}

func (c *Client) mustBeKey(kind, key string) {
	must(c != nil && c.engine != nil, "a zero Client has no server: make it by NewClient")
	must(key != "", "the key of %s is empty", kind)
	must(!server.Reserved(key), "the key %q begins with redimutex:, which is reserved for what belongs to locks; choose another one", key)
}

// Close ends all live holds, and makes waiting and later calls fail with [ErrClosed]. It stops the work in the background, and
// waits until that has stopped. If servers hang, Close and the calls that it ends take at most two node timeouts plus one
// timeout of [WithReplicas]. If a lock has longer timeouts than the Client, Close waits for its renewals as long as those
// timeouts allow, but for its calls at most two node timeouts of the Client.
//
// A hold that Close ends is lost, for the reason [Closed]: its Done channel is closed and its contexts are cancelled. Its key
// is not deleted, because the code that it protects may still run. Unlock works after Close and deletes the key. Without
// Unlock the key expires. Close always returns nil.
func (c *Client) Close() error {
	c.engine.Close(c.config.terms.Timeout)
	var closing sync.WaitGroup
	for _, p := range c.shared {
		// Closing a connection takes almost no time.
		closing.Go(func() { p.Close(min(c.config.terms.Timeout, 50*time.Millisecond)) })
	}
	closing.Wait()
	return nil
}
