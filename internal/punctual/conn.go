package punctual

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Conn is a connection of redigo whose operations end with their contexts, on the goroutine of the caller and
// with no other beside it. As with redigo's own, one goroutine may send and flush while another receives, and an
// operation that was cut short has broken it for good: Err reports that, and a redis.Pool closes it.
//
// Operations without a ctx are those of redigo, with the timeouts that the connection was dialled with.
type Conn struct {
	redis.ConnWithTimeout
	socket *socket

	undo func()          // writeUndo
	ctx  context.Context // of the DoContext under way, for writeUndo
	sent atomic.Bool     // since the last DoContext: replies may be still to come
}

var (
	_ redis.ConnWithTimeout = (*Conn)(nil)
	_ redis.ConnWithContext = (*Conn)(nil)
)

type key int

const (
	// Undo is the key of a value of the ctx that is given to DoContext: a []any with the name and the arguments of a
	// command. If the operation is cut short when its own command is written already, this one is written behind it
	// on the same connection, which is then closed: a server that executes the first late executes the second next.
	// It is written only if the network takes it at once, and no goroutine hears of its reply.
	Undo key = iota
	// Caller is the key of a value of a ctx that is made for an operation, and has the Done of another: that other one.
	// A connection stays registered with a ctx beyond the operation, until it has one with another Done; so a ctx that
	// is used again for other callers needs this value.
	Caller
	// Batch is the key of a value of the ctx that is given to DoContext without a command: Sends, whose replies DoContext
	// returns. What is sent before that may have to be written while the operation has no bound yet.
	Batch
)

// Sends calls send for each command, and returns its first error.
type Sends = func(send func(command string, args ...any) error) error

var errCut = errors.New("the connection was given up: an operation on it was cut short by its context")

func newConn(c redis.ConnWithTimeout, s *socket) *Conn {
	conn := &Conn{ConnWithTimeout: c, socket: s}
	conn.undo = conn.writeUndo
	return conn
}

// DoContext is Do that ends with ctx, by its deadline or when it is cancelled. Then the error is that of ctx, or
// context.DeadlineExceeded where only the clock has told so far. A ctx with a deadline replaces the timeout for
// reading that the connection was dialled with; one that has ended before anything was sent leaves the
// connection as it was.
//
// A ctx that ends in the moment in which the reply arrives may break the connection as well, but not the reply.
func (c *Conn) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	return c.within(ctx, func(bounded bool) (reply any, err error) {
		c.ctx, c.socket.onEnd = ctx, c.undo
		if command == "" {
			err = SendBatch(ctx, c.ConnWithTimeout.Send)
		}
		switch {
		case err != nil:
		case bounded:
			reply, err = c.DoWithTimeout(0, command, args...)
		default:
			reply, err = c.Do(command, args...)
		}
		c.sent.Store(false)
		c.ctx, c.socket.onEnd = nil, nil
		return reply, err
	})
}

// SendBatch sends the Batch of ctx, if it has one.
func SendBatch(ctx context.Context, send func(command string, args ...any) error) error {
	if sends, ok := ctx.Value(Batch).(Sends); ok && sends != nil {
		return sends(send)
	}
	return nil
}

// ReceiveContext is Receive that ends with ctx, as DoContext does. There is no Undo.
func (c *Conn) ReceiveContext(ctx context.Context) (any, error) {
	return c.within(ctx, func(bounded bool) (any, error) {
		if bounded {
			return c.ReceiveWithTimeout(0)
		}
		return c.Receive()
	})
}

// within runs an operation that ends with ctx. bounded says that it has no other deadline than that of ctx.
func (c *Conn) within(ctx context.Context, operation func(bounded bool) (any, error)) (any, error) {
	if c.socket.over() {
		return nil, errCut
	}
	deadline, bounded := ctx.Deadline()
	err := ctx.Err()
	if err == nil && bounded && !time.Now().Before(deadline) {
		err = context.DeadlineExceeded
	}
	if err != nil {
		if c.sent.Load() {
			c.socket.interrupt() // no process has the time to receive what is still to come
		}
		return nil, err
	}
	c.socket.begin(ctx, deadline)
	reply, err := operation(bounded)
	c.socket.finish()
	if err != nil && c.ConnWithTimeout.Err() != nil { // else it is an error of the server
		err = cause(ctx, err)
	}
	return reply, err
}

// cause returns what ctx says if it has ended, else err. The system may notice before ctx does that its deadline has passed.
func cause(ctx context.Context, err error) error {
	var timeout net.Error
	deadline, bounded := ctx.Deadline()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded && !time.Now().Before(deadline) && errors.As(err, &timeout) && timeout.Timeout():
		return context.DeadlineExceeded
	}
	return err
}

// writeUndo writes the Undo of the operation that is being cut short. The reader calls it from inside of redigo,
// which allows a Send and a Flush beside a Receive.
func (c *Conn) writeUndo() {
	undo, _ := c.ctx.Value(Undo).([]any)
	if len(undo) == 0 {
		return
	}
	if name, ok := undo[0].(string); ok && c.ConnWithTimeout.Send(name, undo[1:]...) == nil {
		c.Flush() //nolint:errcheck // the connection has ended either way
	}
}

// Send is that of redigo.
func (c *Conn) Send(command string, args ...any) error {
	c.sent.Store(true)
	return c.ConnWithTimeout.Send(command, args...)
}

// Err returns why the connection can't be used any more, or nil.
func (c *Conn) Err() error {
	if err := c.ConnWithTimeout.Err(); err != nil {
		return err
	}
	if c.socket.over() {
		return errCut
	}
	return nil
}

// Close closes the connection, at once, whatever its peer does.
func (c *Conn) Close() error {
	c.socket.linger()
	return c.ConnWithTimeout.Close()
}
