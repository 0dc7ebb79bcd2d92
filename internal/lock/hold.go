package lock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
)

// A Hold is one hold of a lock, from Lock to Unlock. A grant may see many: one after the other, or, of a kind that
// several may hold, at the same time. A Hold with an Observer, and nothing else, is given to Engine.Lock, which fills it
// in.
type Hold struct {
	Observer Observer
	grant    *Grant
	after    time.Duration // how long after the lock was won it began
	watch    atomic.Pointer[watch]

	next, prev *Hold // of the grant; guarded by Grant.mu
}

// An Observer is told what happens to a call, and to its Hold. Its methods are called on the goroutine to
// which it happens.
type Observer interface {
	Traced() bool // whether Waiting, Tried and Renewed are of interest
	Waiting(ctx context.Context)
	Tried(ctx context.Context, tries int, wait time.Duration, f *Failure) // a try has failed
	Unavailable(f *quorum.Failure)                                        // too few servers answered; it is repeated
	Renewed(f *quorum.Failure)
	Lost(r keepalive.Reason)
	LostIdle(r keepalive.Reason) // the lock was lost while it was kept for the next hold; this one had ended well
}

// A watch is what has to happen at the end of a hold, and how that came. Most holds are short, and have
// none before their end.
type watch struct {
	mu     sync.Mutex
	reason keepalive.Reason // Alive until the end has been noticed
	done   chan struct{}    // made when it is asked for
	after  map[*func()]struct{}
}

var (
	alreadyDone = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
	// unlocked is the watch of all holds that Unlock has ended before they were asked for one.
	unlocked = &watch{reason: keepalive.Unlocked, done: alreadyDone}
)

// Token returns the value of the key during the hold.
func (h *Hold) Token() string { return h.grant.Token() }

// Fence returns the fence of the hold, 0 without fencing.
func (h *Hold) Fence() int64 { return h.grant.votes.Fence }

// Began returns when the hold began.
func (h *Hold) Began() time.Time { return h.grant.votes.At.Add(h.after) }

// Until returns when the validity ends.
func (h *Hold) Until() time.Time { return h.grant.lease.Until() }

// LostKey returns which of the keys was lost, if the server has said so.
func (h *Hold) LostKey() string {
	if k := h.grant.lostKey.Load(); k != nil {
		return *k
	}
	return h.grant.votes.Lock().Key
}

// Reason returns how the hold has ended, by the clock.
func (h *Hold) Reason() keepalive.Reason {
	if w := h.watch.Load(); w != nil {
		w.mu.Lock()
		r := w.reason
		w.mu.Unlock()
		if r != keepalive.Alive {
			return r
		}
	}
	return h.grant.lease.Reason()
}

// Done returns a channel that is closed when the hold has ended.
func (h *Hold) Done() <-chan struct{} {
	w := h.watched()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done == nil {
		w.done = make(chan struct{})
		if w.reason != keepalive.Alive {
			w.done = alreadyDone
		}
	}
	return w.done
}

// AfterEnd calls f when the hold has ended, at once if it has, unless stop is called before.
func (h *Hold) AfterEnd(f func()) (stop func()) {
	w := h.watched()
	w.mu.Lock()
	over := w.reason != keepalive.Alive
	if !over {
		if w.after == nil {
			w.after = make(map[*func()]struct{})
		}
		w.after[&f] = struct{}{}
	}
	w.mu.Unlock()
	if over {
		f()
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.after, &f)
	}
}

func (h *Hold) watched() *watch {
	if w := h.watch.Load(); w != nil {
		return w
	}
	h.watch.CompareAndSwap(nil, new(watch))
	return h.watch.Load()
}

// end ends the hold, and reports whether it had not ended before.
func (h *Hold) end(r keepalive.Reason) bool {
	if r == keepalive.Unlocked && h.watch.CompareAndSwap(nil, unlocked) {
		return true
	}
	w := h.watched()
	w.mu.Lock()
	if w.reason != keepalive.Alive {
		w.mu.Unlock()
		return false
	}
	w.reason = r
	if w.done != nil {
		close(w.done)
	}
	after := w.after
	w.after = nil
	w.mu.Unlock()
	for f := range after {
		(*f)()
	}
	return true
}

// lose ends a hold that was lost, and tells it if it had not ended before.
func (h *Hold) lose(r keepalive.Reason) {
	if h.end(r) {
		h.grant.key.engine.lost(r)
		h.Observer.Lost(r)
	}
}

// ended reports whether the end of the hold has been noticed. It does not look at the clock.
func (h *Hold) ended() bool {
	w := h.watch.Load()
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reason != keepalive.Alive
}
