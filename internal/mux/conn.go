package mux

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/punctual"
)

// A Conn looks like a connection of its own. As with those of redigo, one goroutine may send and
// flush while another receives; and replies come in the order of the commands. Unlike with those,
// a command that times out does not break it.
type Conn struct {
	link *link

	mu     sync.Mutex
	calls  []*call // that were sent and have no reply yet, oldest first
	put    int32   // how many of them were flushed; it is an int32 to keep the Conn small: every operation makes one
	closed bool
}

var (
	_ redis.ConnWithTimeout = (*Conn)(nil)
	_ redis.ConnWithContext = (*Conn)(nil)
)

// maxWait bounds commands that come without a timeout.
const maxWait = 5 * time.Second

var (
	errConnClosed = errors.New("the connection was closed by its user")
	errDemoted    = errors.New("the server has become a replica")
	errNothing    = errors.New("nothing was sent and flushed that has a reply to come")
)

// newBrokenConn returns one that answers everything with err.
func newBrokenConn(err error) *Conn {
	return &Conn{link: &link{err: err, calls: new(sync.Pool)}}
}

// Err returns why the connection can't be used any more, or nil.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errConnClosed
	}
	return c.link.broken()
}

// Close gives the connection back. What was sent is executed; the replies are thrown away.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) > 0 && c.flush() == nil {
		for _, call := range c.calls {
			c.link.abandon(call)
		}
	}
	c.closed, c.calls, c.put = true, nil, 0
	return nil
}

// Send prepares a command for Flush.
func (c *Conn) Send(name string, args ...any) error {
	if err := refuse(name, args); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errConnClosed
	}
	if err := c.link.broken(); err != nil {
		return err
	}
	c.calls = append(c.calls, c.link.newCall(name, args))
	return nil
}

// Flush hands over what was sent. It does not wait until it is written.
func (c *Conn) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errConnClosed
	}
	return c.flush()
}

func (c *Conn) flush() error {
	if int(c.put) == len(c.calls) {
		return c.link.broken()
	}
	if err := c.link.put(c.calls[c.put:]...); err != nil {
		c.calls = c.calls[:c.put]
		return err
	}
	c.put = int32(len(c.calls))
	return nil
}

// Receive returns the reply to the oldest command.
func (c *Conn) Receive() (any, error) { return c.ReceiveWithTimeout(0) }

// ReceiveWithTimeout is Receive that waits no longer than d. A reply that comes later is thrown away.
func (c *Conn) ReceiveWithTimeout(d time.Duration) (any, error) {
	call, err := c.oldest()
	if err != nil {
		return nil, err
	}
	c.link.limit(call, end(d))
	<-call.done
	return c.link.outcome(call)
}

// ReceiveContext is Receive that waits no longer than ctx lasts.
func (c *Conn) ReceiveContext(ctx context.Context) (any, error) {
	call, err := c.oldest()
	if err != nil {
		return nil, err
	}
	return c.link.wait(ctx, call)
}

func (c *Conn) oldest() (*call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, errConnClosed
	case c.put == 0:
		if err := c.link.broken(); err != nil {
			return nil, err
		}
		return nil, errNothing
	}
	first := c.calls[0]
	c.calls = c.calls[1:]
	c.put--
	return first, nil
}

// Do sends a command and returns its reply. As with redigo, replies of commands that were sent before
// are received first; without a command, they are all that is returned.
func (c *Conn) Do(name string, args ...any) (any, error) { return c.DoWithTimeout(0, name, args...) }

// DoWithTimeout is Do that waits no longer than d for each reply.
func (c *Conn) DoWithTimeout(d time.Duration, name string, args ...any) (any, error) {
	if name == "" || c.pending() {
		return c.doAll(name, args, func() (any, error) { return c.ReceiveWithTimeout(d) })
	}
	call, err := c.begin(name, args, end(d), nil)
	if err != nil {
		return nil, err
	}
	<-call.done
	return c.link.outcome(call)
}

// DoContext is Do that waits no longer than ctx lasts. Then the [punctual.Undo] of ctx, a command with its arguments, is
// written behind the command on the same connection: whenever the server gets to executing the first, it executes the
// second next. If the command is still waiting to be written, it never is. Without a command it is for a [punctual.Batch].
func (c *Conn) DoContext(ctx context.Context, name string, args ...any) (any, error) {
	if name == "" {
		if err := punctual.SendBatch(ctx, c.Send); err != nil {
			return nil, err
		}
	}
	if name == "" || c.pending() {
		return c.doAll(name, args, func() (any, error) { return c.ReceiveContext(ctx) })
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	deadline, ok := ctx.Deadline()
	over := ctx.Done()
	if !ok && over == nil {
		deadline = end(0)
	}
	undo, _ := ctx.Value(punctual.Undo).([]any)
	call, err := c.begin(name, args, deadline, undo)
	if err != nil {
		return nil, err
	}
	if over != nil { // else the deadline ends the call, and a select takes longer
		select {
		case <-call.done:
			return c.link.outcome(call)
		case <-over:
			if c.link.cut(call) {
				return nil, ctx.Err()
			}
		}
	}
	<-call.done
	return c.link.outcome(call)
}

// Discard has the shared connection dialled anew, because it leads to a server that has become a replica.
func (c *Conn) Discard() {
	if time.Since(c.link.born) > minLife {
		c.link.fail(errDemoted)
	}
}

func (c *Conn) pending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0
}

// begin hands over a single command.
func (c *Conn) begin(name string, args []any, deadline time.Time, undo []any) (*call, error) {
	if err := refuse(name, args); err != nil {
		return nil, err
	}
	call := c.link.newCall(name, args)
	call.deadline, call.undo = deadline, undo
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errConnClosed
	}
	if err := c.link.put(call); err != nil {
		return nil, err
	}
	return call, nil
}

// doAll is Do behind commands whose replies were not received yet.
func (c *Conn) doAll(name string, args []any, receive func() (any, error)) (any, error) {
	if name != "" {
		if err := c.Send(name, args...); err != nil {
			return nil, err
		}
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	var all []any
	var last any
	var refused error
	for c.pending() {
		reply, err := receive()
		switch {
		case fatal(err):
			return nil, err
		case err != nil && name == "":
			reply = err
		case err != nil && refused == nil:
			refused = err
		}
		last = reply
		if name == "" {
			all = append(all, reply)
		}
	}
	switch {
	case name != "":
		return last, refused
	case all == nil:
		return nil, nil
	}
	return all, nil
}

// end is the deadline of a command with the timeout d.
func end(d time.Duration) time.Time {
	if d == 0 {
		d = maxWait
	}
	return time.Now().Add(d)
}

// wait returns the outcome of a call that was handed over, or why ctx has ended.
func (l *link) wait(ctx context.Context, c *call) (any, error) {
	deadline, ok := ctx.Deadline()
	if !ok && ctx.Done() == nil {
		deadline, ok = end(0), true
	}
	if ok {
		l.limit(c, deadline)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if l.abandon(c) {
			return nil, ctx.Err()
		}
		<-c.done
	}
	return l.outcome(c)
}
