package redimutex

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/gate"
	"github.com/redimutex/redimutex/internal/lease"
	"github.com/redimutex/redimutex/internal/queue"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A Client is what the Mutexes of one process share: the servers, the queue of each key inside the
// process, and the renewal of all leases. Make one Client for a set of servers and keep it; it is
// safe for concurrent use. It starts goroutines only while there is something for them to do.
type Client struct {
	config *config
	pools  []server.Pool
	shared bool // a pool is multiplexed
	once   sync.Once

	observers observers
	*engine
}

// An engine is the working part of a Client. It is made by the first use, so that a Mutex that nobody
// has locked yet costs little even if it has a Client of its own.
type engine struct {
	quorum   *quorum.Quorum
	keeper   *lease.Keeper
	hub      func() *queue.Hub // made when somebody needs it
	closing  chan struct{}
	counters counters

	mu     sync.Mutex
	lines  map[string]*line // of the keys that somebody holds or waits for
	warned [2]warnings      // the newer ones in front
	closed atomic.Bool      // set under mu
}

// Warnings are the keys for which we have logged that the servers fail, within one second.
type warnings struct {
	since time.Time
	keys  map[string]bool
}

// A line is where the goroutines of this process queue for one key.
type line struct {
	gate.Gate
	refs    atomic.Int32                   // how many hold or wait; from 0 it only rises under Client.mu
	failure atomic.Pointer[quorum.Failure] // of the last try; nil after a good one

	// Who has the turn at the gate owns these.
	pause time.Time // no waiter tries before this
	kept  *tenure   // what the last hold has left for the next one; it counts in refs
	heir  *heir     // the next one's place in the queue on the server
}

// NewClient returns a Client over independent servers, one pool each: a single server, or N of them
// for Redlock, where a majority decides. The options hold for all its Mutexes. It does not connect.
// The pools stay the caller's: Close does not close them.
//
// It panics if there are no pools, if one is nil, or if an option makes no sense.
func NewClient(pools []Pool, opts ...Option) *Client {
	demand(len(pools) > 0, "NewClient needs a pool for each server, and got none")
	c := &Client{config: &defaultConfig, pools: make([]server.Pool, len(pools))}
	for i, p := range pools {
		demand(!isNil(p), "pool %d is nil", i)
		c.pools[i] = serverPool(p)
		c.shared = c.shared || multiplexed(p)
	}
	if len(opts) > 0 {
		c.config = newConfig(c.config, opts)
	}
	c.demandOwnConns(c.config)
	return c
}

// start makes the engine, unless it is there already. Whatever a caller may do first begins with it.
func (c *Client) start() {
	c.once.Do(func() {
		e := &engine{
			quorum:  quorum.New(c.pools),
			closing: make(chan struct{}),
			lines:   make(map[string]*line),
		}
		e.keeper = lease.NewKeeper(c.renew)
		e.hub = sync.OnceValue(func() *queue.Hub { return queue.NewHub(e.quorum.Servers()) })
		c.engine = e
	})
}

func isNil(p Pool) bool {
	if p == nil {
		return true
	}
	v := reflect.ValueOf(p)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Mutex returns a Mutex for key, with the options of the Client and those given here. Mutexes of one
// Client with the same key are different objects that exclude each other; their goroutines share
// one queue. The key is used on the server as it is.
//
// It panics if the key is empty or an option makes no sense.
func (c *Client) Mutex(key string, opts ...Option) *Mutex {
	demand(key != "", "the key of a Mutex is empty")
	m := &Mutex{client: c, key: key, config: c.config}
	if len(opts) > 0 {
		m.config = newConfig(c.config, opts)
		c.demandOwnConns(m.config)
	}
	return m
}

// Stats returns the figures of the Client.
func (c *Client) Stats() Stats {
	c.start()
	s := c.counters.stats()
	s.Held, s.Errors = c.keeper.Len(), c.quorum.Failures()
	return s
}

// Close makes waiting and later calls fail with [ErrClosed], ends the holds that are alive, stops
// everything that runs in the background, and waits for that; a server that hangs delays it by two
// node timeouts at most.
//
// A hold that Close ends is lost, for the reason [Closed]: its Done channel is closed and its
// contexts are cancelled. Its key is not deleted, because the code that it protects may still run;
// Unlock works after Close and deletes it, and without Unlock it expires. Close always returns nil.
func (c *Client) Close() error {
	c.start()
	c.mu.Lock()
	first := !c.closed.Swap(true)
	lines := slices.Collect(maps.Values(c.lines))
	c.mu.Unlock()
	if first {
		close(c.closing)
	}
	for _, l := range lines {
		l.Shut()
		l.dropKept()
	}
	c.keeper.Close(ErrClosed)
	c.hub().Close(c.config.nodeTimeout)
	c.quorum.Close(c.config.nodeTimeout)
	return nil
}

// join returns the line of m's key, for somebody who then has to part.
func (m *Mutex) join() (*line, error) {
	c := m.client
	if l := m.last.Load(); l != nil && !c.closed.Load() && l.join() {
		return l, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil, closedError(m.key)
	}
	l := c.lines[m.key]
	if l == nil {
		l = new(line)
		c.lines[m.key] = l
	}
	l.refs.Add(1)
	return l, nil
}

// join joins a line that somebody else holds or waits in.
func (l *line) join() bool {
	for {
		n := l.refs.Load()
		if n <= 0 {
			return false
		}
		if l.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// part forgets the line when nobody needs it any more.
func (c *Client) part(key string, l *line) {
	if l.refs.Add(-1) > 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.refs.CompareAndSwap(0, math.MinInt32) { // else somebody has come meanwhile
		delete(c.lines, key)
	}
}

// mayWarn reports whether it is time to log that the servers fail: once a second for each key at
// most, and once in two seconds at least, if there is cause.
func (c *Client) mayWarn(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.warned[0].since) > time.Second {
		c.warned[1] = c.warned[0]
		c.warned[0] = warnings{now, make(map[string]bool)}
		if now.Sub(c.warned[1].since) > 2*time.Second {
			c.warned[1] = warnings{}
		}
	}
	if c.warned[0].keys[key] || c.warned[1].keys[key] {
		return false
	}
	c.warned[0].keys[key] = true
	return true
}
