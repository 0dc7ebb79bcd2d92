package workers

import (
	"sync/atomic"
	"time"
)

// An Underway counts what is under way, so that a Close can wait for it.
type Underway struct {
	n       atomic.Int64
	closing atomic.Bool
	idle    chan struct{} // tells one that waits that nothing is under way
}

// NewUnderway returns an Underway of nothing.
func NewUnderway() *Underway { return &Underway{idle: make(chan struct{}, 1)} }

// Enter notes that something starts.
func (u *Underway) Enter() { u.n.Add(1) }

// Leave notes that it is over.
func (u *Underway) Leave() {
	if u.n.Add(-1) == 0 && u.closing.Load() {
		u.signal()
	}
}

func (u *Underway) signal() {
	select {
	case u.idle <- struct{}{}:
	default:
	}
}

// Closing reports whether a caller waits for the end, or has.
func (u *Underway) Closing() bool { return u.closing.Load() }

// Wait waits until nothing is under way, d at most. Several may wait.
func (u *Underway) Wait(d time.Duration) {
	u.closing.Store(true)
	timer := time.NewTimer(d)
	defer timer.Stop()
	for u.n.Load() > 0 {
		select {
		case <-u.idle:
		case <-timer.C:
			return
		}
	}
	u.signal() // another one may wait, too
}
