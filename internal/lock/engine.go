// Package lock is the engine between a call that wants a lock and the servers. It knows nothing of the public errors, options
// and traces. It takes terms, fills in holds, and returns failures.
//
// Its files, from the top down: acquire.go (the turn in this process, and the tries), key.go (the line, and what a call leaves
// to the next), wait.go and ticket.go (the wait, if the lock is not free), grant.go (one lock on the servers, until it is
// released or lost), hold.go (from Lock to Unlock) and park.go (what a hold leaves to the next hold of this process).
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
	hub       *wakeup.Hub
	closing   context.Context
	close     context.CancelFunc // ends closing, under mu
	reuses    atomic.Bool        // set once there was a grant that may be parked
	releasing atomic.Int32       // how many parked grants are being released

	Waiting             atomic.Int64 // calls that wait now, in line or between two tries
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
	Pause    func(tries int) time.Duration // returns the wait after this number of tries
}

type Result struct {
	Tries   int             // how often the call asked the servers; a hand-off counts as one
	Wait    time.Duration   // since the call began to wait or to try; 0: it did neither
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
	e.hub = wakeup.NewHub(e.closing, e.servers[0])
	return e
}

// Held returns the number of live grants, with those that are parked.
func (e *Engine) Held() int { return len(e.keeper.Leases()) }

// Errors returns the number of failed operations, by server.
func (e *Engine) Errors() []int64 {
	all := make([]int64, len(e.servers))
	for i, s := range e.servers {
		all[i] = s.Failed.Load()
	}
	return all
}

// InUse asks the only server how many permits of a semaphore are in use. The reply has this number in place of a fence.
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

// Close makes waiting calls and later calls fail, releases parked grants, ends the other grants, and stops what runs in the
// background. It waits for renewals as long as their own bounds say, and for other operations until d has passed. Then the
// servers close, with a last attempt to release, within d at most.
func (e *Engine) Close(d time.Duration) {
	end := time.Now().Add(d)
	e.mu.Lock()
	e.close()
	e.mu.Unlock()
	var closing sync.WaitGroup
	e.keeper.Close()
	e.quorum.Wait(time.Until(end)) // a release that is under way and fails is tried again when the servers close
	closing.Go(func() { e.hub.Wait(d) })
	e.quorum.Close(d)
	closing.Wait()
}
