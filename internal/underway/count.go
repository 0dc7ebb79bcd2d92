// Package underway counts what runs, so that a Close can wait for it.
package underway

import (
	"sync/atomic"
	"time"
)

// A Count is how much is under way. The zero Count is nothing.
type Count struct {
	n       atomic.Int64
	closing atomic.Bool
}

func (c *Count) Enter()        { c.n.Add(1) }
func (c *Count) Leave()        { c.n.Add(-1) }
func (c *Count) Closing() bool { return c.closing.Load() } // whether a caller waits for the end, or has

// Go runs f on a goroutine of its own, which is under way until f returns.
func (c *Count) Go(f func()) {
	c.Enter()
	go func() {
		defer c.Leave()
		f()
	}()
}

// Wait waits until nothing is under way, d at most. Several may wait. It looks again and again, as http.Server.Shutdown
// does, so that what runs need not tell that it is the last.
func (c *Count) Wait(d time.Duration) {
	c.closing.Store(true)
	end := time.Now().Add(d)
	for pause := 50 * time.Microsecond; c.n.Load() > 0 && time.Now().Before(end); pause = min(2*pause, 5*time.Millisecond) {
		time.Sleep(min(pause, time.Until(end)))
	}
}
