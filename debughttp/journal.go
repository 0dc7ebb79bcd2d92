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
	number  int // of the last event
	all     recent
	trouble recent
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
	all, trouble = slices.Clone(j.all), slices.Clone(j.trouble)
	j.mu.Unlock()
	slices.Reverse(all)
	slices.Reverse(trouble)
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

// Recent entries are the last, the newest behind.
type recent []entry

func (r *recent) add(e entry) {
	if i := r.repeated(&e); i >= 0 {
		e.times += (*r)[i].times
		*r = slices.Delete(*r, i, i+1)
	} else if len(*r) == remembered {
		(*r)[0] = entry{} // its place is free only when append needs another array
		*r = (*r)[1:]
	}
	*r = append(*r, e)
}

// repeated returns where the last entry of the key is, if e says the same again; else -1. Waiters who poll, and leases
// that are renewed, would else drive everything out.
func (r recent) repeated(e *entry) int {
	if e.what != tryFailed && e.what != renewed && e.what != renewalFailed {
		return -1
	}
	for i := len(r) - 1; i >= 0; i-- {
		if r[i].key == e.key {
			if r[i].what == e.what {
				return i
			}
			return -1
		}
	}
	return -1
}
