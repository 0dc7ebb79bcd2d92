// Package lock is the engine: what happens between a call that wants a lock and the servers. It knows
// nothing of the public errors, options and traces: it takes terms, fills in holds, and returns failures.
//
// The way down is acquire.go (the turn in this process, and the tries), key.go (the line, and what a call leaves to the next
// in it), wait.go and ticket.go (what a call does that does not get the lock at once), grant.go (one lock on the servers,
// until it is released or lost), hold.go (from Lock to Unlock) and park.go (what a hold leaves to the next of this process).
package lock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
	"github.com/redimutex/redimutex/internal/wakeup"
)

// An Engine is what the locks of one Client share.
type Engine struct {
	servers   []*server.Server
	quorum    *quorum.Quorum
	keeper    *keepalive.Keeper
	hub       func() *wakeup.Hub // made when a waiter needs it
	closing   context.Context
	close     context.CancelFunc // ends closing, under mu
	reuses    atomic.Bool        // there was a grant that may be parked
	releasing atomic.Int32       // so many of those are being released

	Waiting             atomic.Int64 // calls that wait just now, in line or between two tries
	Renewed, NotRenewed atomic.Int64
	Lost                [keepalive.Closed + 1]atomic.Int64 // by reason

	mu   sync.Mutex
	keys map[line]*Key // held, parked or waited for
}

type Call struct {
	Key      string
	More     []string // further keys of the lock
	Terms    *server.Terms
	Once     bool                          // a single try, and no waiting
	MaxTries int                           // 0: no limit
	Pause    func(tries int) time.Duration // the wait after so many tries
}

type Result struct {
	Tries   int             // how often the servers were asked
	Wait    time.Duration   // since the call; 0 if it never began
	Failure *quorum.Failure // nil: the lock is held
}

// New returns the Engine over the servers behind pools. It does not connect.
func New(pools []server.Pool) *Engine {
	e := &Engine{servers: make([]*server.Server, len(pools)), keys: make(map[line]*Key)}
	e.closing, e.close = context.WithCancel(context.Background())
	for i, p := range pools {
		e.servers[i] = server.New(p)
	}
	e.quorum = quorum.New(e.servers)
	e.keeper = keepalive.New(e.renew)
	e.hub = sync.OnceValue(func() *wakeup.Hub { return wakeup.NewHub(e.closing, e.servers[0]) })
	return e
}

// Held returns how many grants are alive, with those that are parked.
func (e *Engine) Held() int { return len(e.keeper.Leases()) }

// Errors returns how many operations have failed, by server.
func (e *Engine) Errors() []int64 {
	all := make([]int64, len(e.servers))
	for i, s := range e.servers {
		all[i] = s.Failed.Load()
	}
	return all
}

// InUse asks the only server how many permits of a semaphore are in use. The reply has that number in place of a fence.
func (e *Engine) InUse(ctx context.Context, key string, t *server.Terms) (int, *quorum.Failure) {
	switch {
	case ctx.Err() != nil:
		return 0, &quorum.Failure{Kind: quorum.Ended}
	case e.closing.Err() != nil:
		return 0, &quorum.Failure{Kind: quorum.Closed}
	}
	reply := e.servers[0].InUse(ctx, server.Lock{Terms: t, Key: key, Extras: server.NoExtras})
	f := quorum.Outcome(reply)
	if f != nil && conn.Over(ctx) {
		f = &quorum.Failure{Kind: quorum.Ended, Before: f}
	}
	return int(reply.Fence), f
}

// Close makes waiting and later calls fail, releases what is parked, ends the other grants, and stops what
// runs in the background. It waits for that: for releases and renewals under way as long as their own
// bounds, and for what follows them, and a last attempt at releasing, d at most.
func (e *Engine) Close(d time.Duration) {
	end := time.Now().Add(d)
	e.mu.Lock()
	e.close()
	e.mu.Unlock()
	var closing sync.WaitGroup
	e.keeper.Close()
	e.quorum.Wait(time.Until(end)) // what is released just now, and fails, has another try when the servers are closed
	closing.Go(func() { e.hub().Wait(d) })
	e.quorum.Close(d)
	closing.Wait()
}
