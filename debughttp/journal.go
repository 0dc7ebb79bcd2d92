package debughttp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
)

// remembered is how many events a journal keeps in each of its lists.
const remembered = 200

// A journal keeps the last events of a Client. Thousands of locks may come and go each second, and push out what matters
// before an operator looks. So trouble is kept in its own list.
type journal struct {
	mu      sync.Mutex
	number  int // of the last event
	all     recent
	trouble recent
}

// An entry is an event, or several of the same kind in a row for a key. It does not keep the Lease or the Context, which would
// stay in memory.
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

// last returns all events, and those that are trouble, the newest first.
func (j *journal) last() (all, trouble []entry) {
	j.mu.Lock()
	all, trouble = slices.Clone(j.all), slices.Clone(j.trouble)
	j.mu.Unlock()
	slices.Reverse(all)
	slices.Reverse(trouble)
	return all, trouble
}

// isTrouble reports whether an operator may have to look into the event. A try that failed because another held the lock is no
// trouble, unless the waiting caller ran out of time. A caller that changed its mind is no trouble either.
func (e *entry) isTrouble() bool {
	switch e.what {
	case lost:
		return !errors.Is(e.err, redimutex.ErrClosed)
	case renewalFailed:
		return true
	case releaseFailed:
		return !errors.Is(e.err, redimutex.ErrLost) // the loss has its own event
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

// recent holds the last entries, the newest at the end.
type recent []entry

func (r *recent) add(e entry) {
	if i := r.repeated(&e); i >= 0 {
		e.times += (*r)[i].times
		*r = slices.Delete(*r, i, i+1)
	} else if len(*r) == remembered {
		(*r)[0] = entry{} // or the old entry stays in memory until append needs another array
		*r = (*r)[1:]
	}
	*r = append(*r, e)
}

// repeated returns the index of the key's last entry if e says the same again, or -1. Without this, waiters that poll and
// leases that are renewed would push everything else out.
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
