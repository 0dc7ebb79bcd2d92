package goredis

import (
	"context"
	"net"
	"os"
	"sync"
	"time"

	"github.com/redimutex/redimutex/pools/internal/dial"
)

// timed wraps next for connections that can't keep deadlines, such as those through an SSH tunnel (ReadTimeout or WriteTimeout
// of -2).
func timed(next dial.Func) dial.Func {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newTimedConn(c), nil
	}
}

// A timedConn is closed when an operation on it has not ended by its deadline.
type timedConn struct {
	net.Conn
	reading, writing operation
}

func newTimedConn(c net.Conn) *timedConn {
	t := &timedConn{Conn: c}
	t.reading.expire = func() { c.Close() }
	t.writing.expire = t.reading.expire
	return t
}

func (c *timedConn) Read(p []byte) (int, error)         { return c.reading.run(c.Conn.Read, p) }
func (c *timedConn) Write(p []byte) (int, error)        { return c.writing.run(c.Conn.Write, p) }
func (c *timedConn) SetReadDeadline(t time.Time) error  { return c.reading.until(t) }
func (c *timedConn) SetWriteDeadline(t time.Time) error { return c.writing.until(t) }

func (c *timedConn) SetDeadline(t time.Time) error {
	_ = c.reading.until(t)
	return c.writing.until(t)
}

// An operation is the reading side or the writing side of a timedConn. Its timer runs only during a call: a deadline that
// passes while the connection is idle has no effect, as with any net.Conn.
type operation struct {
	expire func()

	mu       sync.Mutex
	deadline time.Time
	running  bool
	late     bool
	timer    *time.Timer
}

func (o *operation) run(call func([]byte) (int, error), p []byte) (int, error) {
	o.set(func() { o.running = true })
	n, err := call(p)
	o.set(func() { o.running = false })
	if err != nil && o.late {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

func (o *operation) until(t time.Time) error {
	o.set(func() { o.deadline = t })
	return nil
}

// set changes o, and adjusts its timer.
func (o *operation) set(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	if o.running && !o.deadline.IsZero() {
		deadline := o.deadline
		o.timer = time.AfterFunc(time.Until(deadline), func() { o.end(deadline) })
	}
}

// end closes the connection if the deadline still applies.
func (o *operation) end(deadline time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running && o.deadline.Equal(deadline) {
		o.late = true
		o.expire()
	}
}
