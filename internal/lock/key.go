package lock

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/fifo"
	"github.com/redimutex/redimutex/internal/quorum"
)

// A Key is one key in this process: its goroutines in order, and what they leave for each other.
type Key struct {
	engine *Engine
	name   string
	fifo   fifo.Line
	refs   atomic.Int32 // holds, waiters and what is parked; from 0 it only rises under Engine.mu

	// parked is what the last hold has left. Whoever swaps it out owns it, and has to use it or to dispose
	// of it.
	parked   atomic.Pointer[parcel]
	disposal atomic.Pointer[chan struct{}]  // closed when a release in the background is over
	tail     atomic.Pointer[quorum.Tail]    // of a release that some servers have not answered
	failure  atomic.Pointer[quorum.Failure] // of the last try; nil after a good one
	grant    atomic.Pointer[Grant]          // that this process has, until its release begins; tells others who holds the lock

	pause time.Time // no waiter tries before this; belongs to the turn
}

// A parcel is what is parked: a grant, or a ticket that the release has queued for the next waiter.
type parcel struct {
	grant  *Grant
	ticket *ticket
}

// ref returns the Key of that name, for somebody who has to unref it; or nil if the Engine is closed. hint is
// nil, or the Key that the caller had the last time.
func (e *Engine) ref(name string, hint *Key) *Key {
	if hint != nil && !e.closed.Load() && hint.ref() {
		return hint
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed.Load() {
		return nil
	}
	k := e.keys[name]
	if k == nil {
		k = &Key{engine: e, name: name}
		e.keys[name] = k
	}
	k.refs.Add(1)
	return k
}

// ref refers to a Key to which somebody else does too.
func (k *Key) ref() bool {
	for {
		n := k.refs.Load()
		if n <= 0 {
			return false
		}
		if k.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// unref forgets the Key when nobody needs it any more.
func (k *Key) unref() {
	if k.refs.Add(-1) > 0 {
		return
	}
	e := k.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if k.refs.CompareAndSwap(0, math.MinInt32) { // else somebody has come meanwhile
		delete(e.keys, k.name)
	}
}

// inTheWay returns what keeps others of this process from the lock, as far as it is known: the hold of one of them, or
// what the servers have said to the last try.
func (k *Key) inTheWay() *quorum.Failure {
	if g := k.grant.Load(); g != nil {
		return &quorum.Failure{Kind: quorum.Contended, Holder: g.token}
	}
	return k.failure.Load()
}

// follow keeps what some servers have still to answer to a release, for whoever asks them next. The caller
// refers to the Key.
func (k *Key) follow(t *quorum.Tail) {
	if k.tail.Swap(t) != nil {
		return // whoever waits for that one goes on with this one
	}
	k.refs.Add(1)
	wait := func() {
		defer k.unref()
		for {
			t := k.tail.Load()
			if t.Wait(); k.tail.CompareAndSwap(t, nil) {
				return
			}
		}
	}
	if !k.engine.spawn(wait) {
		k.unref()
	}
}

// pass gives the turn to the next goroutine.
func (k *Key) pass() {
	if !k.fifo.Release() {
		k.tidy()
	}
}

// cancel ends the waiting of w, which may have the turn already.
func (k *Key) cancel(w *fifo.Waiter) {
	if w.Cancel() {
		k.tidy()
	}
}

// tidy disposes of what must not stay while nobody has the turn: a ticket, and a grant whose time is over.
func (k *Key) tidy() {
	if p := k.parked.Load(); p != nil && (p.ticket != nil || p.grant.spent()) && k.parked.CompareAndSwap(p, nil) {
		p.dispose()
	}
}

// clear disposes of whatever is parked.
func (k *Key) clear() {
	if p := k.parked.Swap(nil); p != nil {
		p.dispose()
	}
}

func (p *parcel) dispose() {
	if p.ticket != nil {
		p.ticket.withdraw()
	} else {
		p.grant.dispose()
	}
}
