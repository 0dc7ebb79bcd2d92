// Package underway counts what runs, so that a Close can wait for it.
package underway

import (
	"sync/atomic"
	"time"
)

// A Count is how much is under way.
type Count struct {
	n       atomic.Int64
	closing atomic.Bool
	idle    chan struct{} // tells one that waits that nothing is under way
}

// New returns the Count of nothing.
func New() *Count { return &Count{idle: make(chan struct{}, 1)} }

// Enter notes that something starts.
func (c *Count) Enter() { c.n.Add(1) }

// Leave notes that it is over.
func (c *Count) Leave() {
	if c.n.Add(-1) == 0 && c.closing.Load() {
		c.signal()
	}
}

func (c *Count) signal() {
	select {
	case c.idle <- struct{}{}:
	default:
	}
}

// Closing reports whether a caller waits for the end, or has.
func (c *Count) Closing() bool { return c.closing.Load() }

// Wait waits until nothing is under way, d at most. Several may wait.
func (c *Count) Wait(d time.Duration) {
	c.closing.Store(true)
	timeout := time.After(d)
	for c.n.Load() > 0 {
		select {
		case <-c.idle:
		case <-timeout:
			return
		}
	}
	c.signal() // another one may wait, too
}
