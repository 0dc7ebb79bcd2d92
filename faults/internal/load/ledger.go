// Package load has clients, in the place of processes, that take locks of all kinds again and again. Its Ledger finds out
// whether two of them have what only one may have.
package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A Ledger knows all holds of this process, which plays many processes.
type Ledger struct {
	mu    sync.Mutex
	alive []*Hold
	past  []*Hold // with a fence, in order of time
	last  time.Time
	sums  Sums
}

// Sums are what a Ledger has seen.
type Sums struct {
	Holds, Fences  int
	Clashes, Falls int           // holds that began while another was valid, and fences that are not above those before
	Gap            time.Duration // the longest time in which no hold began
	First          string        // the first violation, in words
}

// Add adds what another Ledger has seen.
func (s *Sums) Add(o Sums) {
	s.Holds, s.Clashes, s.Fences, s.Falls = s.Holds+o.Holds, s.Clashes+o.Clashes, s.Fences+o.Fences, s.Falls+o.Falls
	s.Gap, s.First = max(s.Gap, o.Gap), cmp.Or(s.First, o.First)
}

// A Hold is one hold, as its holder sees it.
type Hold struct {
	*redimutex.Lease
	Keys    []string
	Reads   bool      // shares the lock with other readers
	Writes  bool      // a writer, which may become a reader
	Permits int       // more than 0: of a semaphore with this number of permits
	Asked   time.Time // when the call for it began

	Granted time.Time
}

// excludes reports whether the two holds must not be valid at the same time.
func (h *Hold) excludes(other *Hold) bool {
	return h.Permits == 0 && h.shares(other) && !(h.Reads && other.Reads)
}

func (h *Hold) shares(other *Hold) bool {
	return slices.ContainsFunc(h.Keys, func(k string) bool { return slices.Contains(other.Keys, k) })
}

// Acquire waits for a Mutex, and begins the hold.
func (l *Ledger) Acquire(ctx context.Context, m *redimutex.Mutex) (h *Hold, err error) {
	h = &Hold{Keys: m.Keys(), Asked: time.Now()}
	if h.Lease, err = m.Acquire(ctx); err == nil {
		l.Begin(h)
	}
	return h, err
}

// Release ends and releases a hold. It ignores the error: a lost lease says so itself.
func (l *Ledger) Release(h *Hold) {
	l.End(h)
	_ = h.Lease.Release(context.Background())
}

// Begin records and judges a new hold.
func (l *Ledger) Begin(h *Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Granted = time.Now()
	if !l.last.IsZero() {
		l.sums.Gap = max(l.sums.Gap, h.Granted.Sub(l.last))
	}
	l.last = h.Granted
	l.sums.Holds++
	beside := 0
	for _, other := range l.alive {
		switch {
		case !redistest.BothValid(other, h):
		case h.excludes(other):
			l.wrong(&l.sums.Clashes, "two valid leases of %v and %v", other.Keys, h.Keys)
		case h.Permits > 0 && h.shares(other):
			beside++
		}
	}
	if h.Permits > 0 && beside >= h.Permits {
		l.wrong(&l.sums.Clashes, "%d permits beside a new one of %v", beside, h.Keys)
	}
	l.alive = append(l.alive, h)
	if h.Fence() > 0 && h.Err() == nil {
		l.fence(h)
	}
}

// fence compares the fence of h with those of holds that were granted before h was asked for. A reader has the fence of the
// last writer.
func (l *Ledger) fence(h *Hold) {
	l.sums.Fences++
	for _, other := range l.past {
		if h.shares(other) && other.Granted.Before(h.Asked) && (h.Fence() < other.Fence() || h.Fence() == other.Fence() && !h.Reads) {
			l.wrong(&l.sums.Falls, "fence %d of %v after %d", h.Fence(), h.Keys, other.Fence())
			break
		}
	}
	l.past = append(l.past, h)
	if n := len(l.past); n > 256 {
		l.past = slices.Clone(l.past[n/2:])
	}
}

func (l *Ledger) wrong(count *int, format string, args ...any) {
	*count++
	if l.sums.First == "" {
		l.sums.First = fmt.Sprintf(format, args...)
	}
}

// Downgrade records that a writer is about to become a reader.
func (l *Ledger) Downgrade(h *Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Reads = true
}

// End records that the holder is about to release the lock or to hand it over.
func (l *Ledger) End(h *Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive = slices.DeleteFunc(l.alive, func(other *Hold) bool { return other == h })
}

// Sums returns what was seen until now.
func (l *Ledger) Sums() Sums {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sums
}
