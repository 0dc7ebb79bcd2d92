package server

import (
	"sync"
	"time"
)

// epoch is the zero of this process's monotonic clock. It is so long ago that it is before the virtual time of tests as well.
// So each moment is above 0 when counted since epoch, and 0 means never.
var epoch = time.Now().Add(-50 * 365 * 24 * time.Hour)

// Monotonic returns the time since epoch: a cheap reading of the clock.
func Monotonic() time.Duration { return time.Since(epoch) }

// A clock is what we know of a server's clock: how far it is ahead of our monotonic clock. A reply with the server's time
// bounds this offset on both sides, because the server read its clock after we sent and before we received. The bounds of
// several replies are intersected. If they contradict each other, a clock was set or has drifted, and the newest reply counts.
type clock struct {
	mu        sync.Mutex
	known     bool
	told      time.Duration // when the server's time was last received, since epoch
	low, high time.Duration // server time in µs since 1970, as a Duration, minus time since epoch
}

// learn takes in a reply: the server's clock showed now, in µs, at some moment between sent and received.
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

// forget makes the next try ask the server for its time first, unless that was received after since. Until the server answers,
// nothing is sent that it could execute late. If the server is far away, this question may use up the time of the whole try.
func (c *clock) forget(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = c.known && c.told > since.Sub(epoch)
}

// at translates t to µs on the server's clock. From t on the server refuses a command with this deadline.
func (c *clock) at(t time.Time) (us int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64((t.Sub(epoch) + c.low) / time.Microsecond), c.known
}
