package sim

import (
	"errors"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Here is the half of a conn that brings replies to the client.

// breakSoon tells the client that the connection is broken.
func (c *conn) breakSoon() {
	w := c.link.world
	w.at(w.now()+c.link.delay(c.link.dice(c.last()+breaking)), func() { c.fail(errReset) })
}

// deliver sends a reply or a message to the client.
func (c *conn) deliver(v any, err error) {
	w := c.link.world
	c.mu.Lock()
	defer c.mu.Unlock()
	at := w.now() + c.link.delay(c.link.dice(c.kind+replying+uint64(len(c.inbox))))
	c.heard = max(at, c.heard+1)
	c.inbox = append(c.inbox, item{w.reserve(c.heard), wire(v), err})
	c.signal()
}

// Receive waits as long as the pool was set up to wait.
func (c *conn) Receive() (any, error) { return c.ReceiveWithTimeout(c.limit) }

// ReceiveWithTimeout waits for the next reply. As with redigo, no reply in time breaks the connection.
func (c *conn) ReceiveWithTimeout(d time.Duration) (any, error) {
	if d <= 0 {
		return c.receive(nil, forever)
	}
	return c.receive(nil, c.link.world.now()+d)
}

const forever = time.Duration(1 << 62)

// receive waits for the next reply until done is closed, or until the moment end.
func (c *conn) receive(done <-chan struct{}, end time.Duration) (any, error) {
	w := c.link.world
	if end < forever {
		// Commands with the same deadline time out one after the other.
		end = w.reserve(end + c.link.turn(c.last()))
		defer w.free(end)
	}
	for {
		c.mu.Lock()
		now, next := w.now(), end
		switch {
		case len(c.inbox) > 0 && c.inbox[0].at <= now:
			first := c.inbox[0]
			c.inbox = c.inbox[1:]
			c.pending = max(c.pending-1, 0)
			c.mu.Unlock()
			w.free(first.at)
			return first.value, first.err
		case c.err != nil:
			defer c.mu.Unlock()
			return nil, c.err
		case now >= end:
			c.mu.Unlock()
			c.fail(os.ErrDeadlineExceeded)
			c.Close()
			return nil, os.ErrDeadlineExceeded
		case over(done):
			c.mu.Unlock()
			c.fail(errClosed)
			c.Close()
			return nil, errClosed
		case len(c.inbox) > 0:
			next = min(end, c.inbox[0].at)
		}
		c.mu.Unlock()
		timer := time.NewTimer(next - now)
		select {
		case <-timer.C:
		case <-c.wake:
		case <-done:
		}
		timer.Stop()
	}
}

func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Do sends a command and waits for its reply. Without a command, Do waits for all replies that the server owes.
func (c *conn) Do(command string, args ...any) (any, error) {
	return c.DoWithTimeout(c.limit, command, args...)
}

// DoWithTimeout is Do with a limit.
func (c *conn) DoWithTimeout(d time.Duration, command string, args ...any) (any, error) {
	end := forever
	if d > 0 {
		end = c.link.world.now() + d
	}
	if command != "" {
		if err := c.Send(command, args...); err != nil {
			return nil, err
		}
	}
	all, err := c.exchange(nil, end)
	switch {
	case err != nil:
		return nil, err
	case command == "":
		return all, nil
	}
	return last(all)
}

// exchange sends the commands in the buffer, and returns all replies that the server owes, error replies included.
func (c *conn) exchange(done <-chan struct{}, end time.Duration) ([]any, error) {
	if err := c.Flush(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	all := make([]any, c.pending)
	c.mu.Unlock()
	for i := range all {
		reply, err := c.receive(done, end)
		var refused redis.Error
		switch {
		case errors.As(err, &refused):
			all[i] = refused
		case err != nil:
			return nil, err
		default:
			all[i] = reply
		}
	}
	return all, nil
}

// last returns the last of some replies, as Do returns it.
func last(all []any) (any, error) {
	if len(all) == 0 {
		return nil, nil
	}
	if refused, ok := all[len(all)-1].(redis.Error); ok {
		return nil, refused
	}
	return all[len(all)-1], nil
}
