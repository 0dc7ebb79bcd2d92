// Package underway counts running operations and goroutines, so that a Close can wait for them.
package underway

import (
	"sync/atomic"
	"time"
)

// A Count counts what is under way. The zero Count counts nothing. It is safe for concurrent use.
type Count struct {
	n       atomic.Int64
	closing atomic.Bool
}

func (c *Count) Enter()        { c.n.Add(1) }
func (c *Count) Leave()        { c.n.Add(-1) }
func (c *Count) Closing() bool { return c.closing.Load() } // whether Wait has been called

// Go runs f on its own goroutine, and counts it until f returns.
func (c *Count) Go(f func()) {
	c.Enter()
	go func() {
		defer c.Leave()
		f()
	}()
}

// Wait waits until nothing is under way, for d at most. Several goroutines may call it. It polls, as http.Server.Shutdown
// does, so that Leave need not report that it was the last.
func (c *Count) Wait(d time.Duration) {
	c.closing.Store(true)
	end := time.Now().Add(d)
	for pause := 50 * time.Microsecond; c.n.Load() > 0 && time.Now().Before(end); pause = min(2*pause, 5*time.Millisecond) {
		time.Sleep(min(pause, time.Until(end)))
	}
}
