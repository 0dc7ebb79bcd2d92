package redimutex

import (
	"slices"
	"sync"

	"github.com/redimutex/redimutex/internal/keepalive"
)

// readHolds are the holds of an RWMutex that RUnlock ends. It ends a lost one first, because that protects no reader
// any more; and a downgraded one last, because its Release may be called as well.
type readHolds struct {
	mu                  sync.Mutex
	live, lost, writers []*Lease
}

// add takes in what RLock has made, unless there is an error, which it returns.
func (r *readHolds) add(l *Lease, err error) error {
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.hold.Reason() == keepalive.Alive {
		r.live = append(r.live, l)
	} else {
		r.lost = append(r.lost, l)
	}
	return nil
}

// downgraded takes in a writer that becomes a reader.
func (r *readHolds) downgraded(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.of.hold.CompareAndSwap(l, nil)
	if !l.claimed.Load() { // else nothing would take it out any more
		r.writers = append(r.writers, l)
	}
}

// lose notes that a hold is lost.
func (r *readHolds) lose(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.live, l); i >= 0 {
		r.live = slices.Delete(r.live, i, i+1)
		r.lost = append(r.lost, l)
	}
}

// claimed takes out a hold that was downgraded.
func (r *readHolds) claimed(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.writers, l); i >= 0 {
		r.writers = slices.Delete(r.writers, i, i+1)
	}
}

// take takes out the hold that is ended next, or returns nil.
func (r *readHolds) take() *Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range []*[]*Lease{&r.lost, &r.live, &r.writers} {
		if n := len(*list); n > 0 {
			l := (*list)[n-1]
			(*list)[n-1], *list = nil, (*list)[:n-1]
			return l
		}
	}
	return nil
}
