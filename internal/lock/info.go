package lock

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// An Info is what this process knows of one line, without asking a server.
type Info struct {
	Keys    []string
	Kind    *server.Kind
	Holds   int  // an idle grant counts as one; 0: the process only waits
	Idle    bool // the lock is parked
	Owner   string
	Fence   int64
	Since   time.Time
	Until   time.Time
	TTL     time.Duration
	Waiting int
	Failure *quorum.Failure // why the last try of the waiters failed; nil: they wait for this process
}

// Infos returns what is known of the keys that this process holds or waits for.
func (e *Engine) Infos() []*Info {
	found := make(map[line]*Info)
	for _, l := range e.keeper.Leases() {
		g := l.Holder().(*Grant)
		kind := g.kind()
		holds, released := g.current()
		if released { // since it was listed: then it is not idle, and a writer without the turn is not a reader
			continue
		}
		of := g.key.line
		if kind.Shared { // a downgraded writer is in the line of the writers, and is shown with the readers
			of = lineOf(kind, g.votes.Spec().Key)
		}
		info := cmp.Or(found[of], &Info{Keys: slices.Collect(g.votes.Spec().Keys), Kind: kind, Idle: true})
		found[of] = info
		if info.Holds == 0 || g.votes.At.Before(info.Since) {
			info.Owner, info.Fence, info.Since = g.terms().Owner, g.votes.Fence, g.votes.At
		}
		if until := l.Until(); info.Holds == 0 || until.Before(info.Until) {
			info.Until, info.TTL = until, l.TTL()
		}
		info.Idle = info.Idle && len(holds) == 0
		info.Holds += max(len(holds), 1) // an idle grant counts as one
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range e.keys {
		l := k.last.Load()
		if l == nil {
			continue
		}
		info := cmp.Or(found[k.line], &Info{Keys: slices.Collect(l.Keys), Kind: l.Kind})
		info.Waiting = k.fifo.Waiting()
		f, g := k.known(time.Second), k.grant.Load()
		if f != nil && k.fifo.Taken() && (g == nil || !g.turn.Load()) {
			info.Waiting++ // the call that asks the servers
			if info.Holds == 0 || l.Kind.Shared {
				info.Failure = f
			}
		}
		if info.Waiting > 0 {
			found[k.line] = info
		}
	}
	return slices.Collect(maps.Values(found))
}
