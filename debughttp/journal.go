package debughttp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
)

// remembered is how many events a journal keeps of each kind.
const remembered = 200

// A journal is the last events of a Client. Thousands of locks may come and go each second, and drive out what
// matters before an operator looks. So trouble is kept apart.
type journal struct {
	mu      sync.Mutex
	number  int // of the last event: the clock may be too coarse to tell which was first
	all     ring
	trouble ring
}

// An entry is an event, or several of the same kind in a row for a key. It keeps neither the Lease nor
// the Context, which would be kept alive.
type entry struct {
	number     int
	at         time.Time
	what       string
	key, owner string
	fence      int64
	tries      int
	wait, held time.Duration
	err        error
	times      int
}

// What happens.
const (
	waiting       = "waiting"
	tryFailed     = "try failed"
	acquired      = "acquired"
	gaveUp        = "gave up"
	renewed       = "renewed"
	renewalFailed = "renewal failed"
	released      = "released"
	releaseFailed = "release failed"
	lost          = "lost"
)

func (j *journal) trace() *redimutex.Trace {
	tell := func(good, bad string) func(redimutex.Event) {
		return func(e redimutex.Event) {
			what := good
			if e.Err != nil {
				what = bad
			}
			j.add(entry{
				at: time.Now(), what: what, key: e.Key, owner: e.Owner, fence: e.Fence,
				tries: e.Attempt, wait: e.Wait, held: e.Held, err: e.Err, times: 1,
			})
		}
	}
	return &redimutex.Trace{
		Waiting:  tell(waiting, waiting),
		Attempt:  tell(tryFailed, tryFailed),
		Acquired: tell(acquired, acquired),
		GaveUp:   tell(gaveUp, gaveUp),
		Renewed:  tell(renewed, renewalFailed),
		Released: tell(released, releaseFailed),
		Lost:     tell(lost, lost),
	}
}

func (j *journal) add(e entry) {
	bad := e.isTrouble()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.number++
	e.number = j.number
	j.all.add(e)
	if bad {
		j.trouble.add(e)
	}
}

// last returns the events and those that are trouble, the newest in front.
func (j *journal) last() (all, trouble []entry) {
	j.mu.Lock()
	all, trouble = slices.Clone(j.all.entries), slices.Clone(j.trouble.entries)
	j.mu.Unlock()
	newest := func(a, b entry) int { return b.number - a.number }
	slices.SortFunc(all, newest)
	slices.SortFunc(trouble, newest)
	return all, trouble
}

// isTrouble reports whether an operator may have to look into the event. That a lock was held by another is
// none, unless a caller that waited ran out of time; that a caller has changed its mind is none either.
func (e *entry) isTrouble() bool {
	switch e.what {
	case lost:
		return !errors.Is(e.err, redimutex.ErrClosed)
	case renewalFailed:
		return true
	case releaseFailed:
		return !errors.Is(e.err, redimutex.ErrLost) // a loss has been told
	case tryFailed:
		return !errors.Is(e.err, redimutex.ErrLocked) && !errors.Is(e.err, context.Canceled)
	case gaveUp:
		switch {
		case errors.Is(e.err, context.DeadlineExceeded):
			return true
		case errors.Is(e.err, redimutex.ErrLocked), errors.Is(e.err, context.Canceled), errors.Is(e.err, redimutex.ErrClosed):
			return false
		}
		return true
	}
	return false
}

// A ring keeps the last entries, in no order.
type ring struct {
	entries []entry
	next    int // the oldest place, when all are taken
}

func (r *ring) add(e entry) {
	if before := r.repeated(&e); before != nil {
		e.times += before.times
		*before = e
		return
	}
	if len(r.entries) < remembered {
		r.entries = append(r.entries, e)
		return
	}
	r.entries[r.next] = e
	r.next = (r.next + 1) % remembered
}

// repeated returns the last entry of the key, if e says the same again. Waiters who poll, and leases that are
// renewed, would else drive everything out.
func (r *ring) repeated(e *entry) *entry {
	if e.what != tryFailed && e.what != renewed && e.what != renewalFailed {
		return nil
	}
	var last *entry
	for i := range r.entries {
		if old := &r.entries[i]; old.key == e.key && (last == nil || old.number > last.number) {
			last = old
		}
	}
	if last == nil || last.what != e.what {
		return nil
	}
	return last
}
