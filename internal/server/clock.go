package server

import (
	"sync"
	"time"
)

// epoch is the zero of this process's monotonic clock. It is so long ago that it is before virtual time as well: a moment
// since epoch is above 0, which says never.
var epoch = time.Now().Add(-50 * 365 * 24 * time.Hour)

// Monotonic returns the time since epoch: a cheap reading of the clock.
func Monotonic() time.Duration { return time.Since(epoch) }

// A clock is what we know of a server's clock: by how much it is ahead of our monotonic one. A reply that carries the server's
// time bounds the offset from both sides, because the server read its clock after we sent and before we received. The bounds
// of several replies are intersected; when they contradict each other, a clock was set or drifted, and the newest counts.
type clock struct {
	mu        sync.Mutex
	known     bool
	told      time.Duration // when it was last told, since epoch
	low, high time.Duration // server time in µs since 1970, as a Duration, minus time since epoch
}

// learn takes in a reply: the server's clock showed now µs, sometime between sent and received.
func (c *clock) learn(now int64, sent, received time.Time) {
	at := time.Duration(now) * time.Microsecond
	low, high := at-received.Sub(epoch), at-sent.Sub(epoch)+time.Microsecond
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known {
		if l, h := max(low, c.low), min(high, c.high); l <= h {
			low, high = l, h
		}
	}
	c.known, c.told, c.low, c.high = true, received.Sub(epoch), low, high
}

// forget makes the next try ask for the time first, if that was not told since then. As long as the server does not answer
// that, nothing is sent that it could execute late. One that is far may need all the time of a try for it.
func (c *clock) forget(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = c.known && c.told > since.Sub(epoch)
}

// at translates a moment of ours to µs on the server's clock, never later than the truth: a
// command that carries it as its deadline is refused from that moment on at the latest.
func (c *clock) at(t time.Time) (us int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64((t.Sub(epoch) + c.low) / time.Microsecond), c.known
}
