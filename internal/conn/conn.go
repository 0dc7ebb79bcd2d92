package conn

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Conn is a redigo connection whose operations end with their contexts. Each operation runs on the caller's goroutine, with
// no second goroutine beside it. As with redigo's own connections, one goroutine may send and flush while another receives. An
// operation is cut short by closing the network connection below it, when the timer fires or ctx ends. That breaks the Conn
// for good: Err reports it, and a redis.Pool closes it. Operations without a ctx are redigo's own, with its timeouts.
type Conn struct {
	redis.ConnWithTimeout
	network io.Closer // below redigo and below TLS: the goodbye of TLS may take as long as the peer likes

	mu    sync.Mutex
	cut   error           // not nil: the connection has ended, and why
	ctx   context.Context // of the operation under way; nil: there is none
	due   time.Time       // the deadline of that operation; zero: none
	undo  []any           // not nil: the command is written, this undoes it, and no goroutine is writing
	timer *time.Timer     // calls look
	fires time.Time       // when the timer fires, or has fired

	undoing sync.WaitGroup // a look that cuts the operation short and writes its undo

	// To register with a ctx costs more than the rest of an operation. But a ctx that ends while the registration is there
	// starts a goroutine, which mostly wakes a thread. So a registration ends with its operation, unless many operations in a
	// row have had that ctx: then it stays until one has another.
	recent  <-chan struct{} // the Done of the last ctx that has one
	inARow  int             // how many operations have had it
	unwatch func() bool     // ends the registration, or does nothing
}

// steady is how many operations in a row have one ctx before the registration with it stays.
const steady = 16

type key int

const (
	// Undo is the key of a value of the ctx that is given to DoContext: a []any with the name and the arguments of a command.
	// If the operation is cut short after its own command was written, the undo is written behind it on the same connection,
	// which is then closed. A server that executes the command late executes the undo next. The undo is written only if the
	// network takes it at once. No goroutine receives its reply.
	Undo key = iota
	// Caller is the key of a value of a ctx that is made for one operation and has the Done of another ctx: that other ctx. A
	// connection stays registered with a ctx after the operation, until it gets a ctx with another Done. So a ctx that is
	// reused for other callers needs this value.
	Caller
)

// A Batch calls send for each command and returns its first error. It is the only argument of a DoContext without a command,
// which returns all replies. No ctx would bound the write if the commands were sent before DoContext and filled the buffer.
type Batch = func(send func(command string, args ...any) error) error

// maxGrace bounds a write after the end: the undo of the operation that was cut short, or the goodbye of TLS. Both are small,
// so no caller waits for room in the socket's buffer, unless the peer has stopped reading.
const maxGrace = 5 * time.Millisecond

var errCut = errors.New("the connection was given up: an operation on it was cut short by its context")

// DoContext is Do that ends with ctx, at its deadline or when it is cancelled. The error is then that of ctx, or
// context.DeadlineExceeded if the clock is past the deadline and ctx has not noticed. A ctx with a deadline replaces the read
// timeout of the dial. A command whose ctx has ended before it was sent leaves the connection as it was. If ctx ends as the
// reply arrives, the connection may break. The reply is still returned, unless the command was undone.
func (c *Conn) DoContext(ctx context.Context, command string, args ...any) (reply any, err error) {
	bounded, err := c.begin(ctx, command == "" && len(args) == 0)
	if err != nil {
		return nil, err
	}
	defer func() { reply, err = c.finish(reply, err) }() // also if the network connection panics: the caller takes ctx back
	undo, _ := ctx.Value(Undo).([]any)
	if command == "" && len(args) > 0 {
		err = args[0].(Batch)(c.Send)
	}
	switch {
	case err != nil:
	case len(undo) > 0:
		reply, err = c.undoable(bounded, undo, command, args)
	case bounded:
		reply, err = c.DoWithTimeout(0, command, args...)
	default:
		reply, err = c.Do(command, args...)
	}
	return reply, err
}

// undoable is Do in two steps. As soon as the command is written, another goroutine may write the undo behind it.
func (c *Conn) undoable(bounded bool, undo []any, command string, args []any) (any, error) {
	err := c.Send(command, args...)
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.undo = undo
	c.mu.Unlock()
	return c.receive(bounded)
}

func (c *Conn) receive(bounded bool) (any, error) {
	if bounded {
		return c.ReceiveWithTimeout(0)
	}
	return c.Receive()
}

// ReceiveContext is Receive that ends with ctx, as DoContext does. There is no Undo.
func (c *Conn) ReceiveContext(ctx context.Context) (reply any, err error) {
	bounded, err := c.begin(ctx, true)
	if err != nil {
		return nil, err
	}
	defer func() { reply, err = c.finish(reply, err) }()
	return c.receive(bounded)
}

// begin makes all writes and reads from now on end with ctx, unless ctx has ended already. It reports whether ctx has a
// deadline. owed says that replies to earlier commands may still be due.
func (c *Conn) begin(ctx context.Context, owed bool) (bounded bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut != nil {
		return false, errCut
	}
	if err := Ended(ctx); err != nil {
		if owed {
			c.cut = err // no caller is left to receive those replies
			c.hangUp()
		}
		return false, err
	}
	c.ctx, c.due = ctx, time.Time{}
	deadline, bounded := ctx.Deadline()
	if bounded {
		now := time.Now()
		c.due = now.Add(deadline.Sub(now)) // on the monotonic clock, as the timer
		c.arm(now)
	}
	if done := ctx.Done(); done != nil {
		if done != c.recent {
			c.unwatch()
			c.recent, c.inARow = done, 0
		}
		if c.inARow++; c.inARow <= steady {
			if caller, ok := ctx.Value(Caller).(context.Context); ok {
				ctx = caller
			}
			c.unwatch = context.AfterFunc(ctx, c.look)
		}
	}
	return bounded, nil
}

// arm makes the timer fire at the deadline of the operation, if there is one. If the timer fires before that, look arms it
// again. An operation that ends does not stop it: a timer that stops and starts each time wakes a thread each time.
func (c *Conn) arm(now time.Time) {
	if !c.due.IsZero() && (c.due.Before(c.fires) || !now.Before(c.fires)) {
		c.fires = c.due
		c.timer.Reset(c.due.Sub(now))
	}
}

// finish ends an operation. A deadline or a cancellation that comes later has no effect. The caller may write as soon as
// finish returns, so finish waits for an undo that is being written.
func (c *Conn) finish(reply any, err error) (any, error) {
	c.mu.Lock()
	cut, undone := c.cut, c.cut != nil && c.undo != nil
	c.ctx, c.due, c.undo = nil, time.Time{}, nil
	if c.inARow < steady {
		c.unwatch()
	}
	c.mu.Unlock()
	c.undoing.Wait()
	if undone || cut != nil && err != nil && c.ConnWithTimeout.Err() != nil { // otherwise err is the server's
		return nil, cut
	}
	return reply, err
}

// look cuts the operation under way short if its time is over: goroutines that read or write return at once. Before that it
// writes the Undo, if there is one to write: redigo allows a Send and a Flush beside a Receive. begin checks its ctx itself.
func (c *Conn) look() {
	c.mu.Lock()
	now := time.Now()
	late := !c.due.IsZero() && !now.Before(c.due)
	if c.ctx == nil || c.cut != nil || c.ctx.Err() == nil && !late {
		c.arm(now)
		c.mu.Unlock()
		return
	}
	c.cut, c.due = cmp.Or(c.ctx.Err(), context.DeadlineExceeded), time.Time{}
	undo := c.undo
	c.undoing.Add(1)
	defer c.undoing.Done()
	c.mu.Unlock()
	defer c.hangUp()
	defer Caught(new(error))
	if undo != nil {
		defer time.AfterFunc(maxGrace, c.hangUp).Stop()
		if c.Send(undo[0].(string), undo[1:]...) == nil {
			c.Flush() //nolint:errcheck // the connection has ended either way
		}
	}
}

func (c *Conn) hangUp() { _ = Calm(c.network.Close) }

// Ended returns why ctx has ended, or nil. It looks at the clock too, because the timer of ctx may be late.
func Ended(ctx context.Context) error {
	if deadline, bounded := ctx.Deadline(); ctx.Err() == nil && bounded && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// Over reports whether ctx has ended. The clock, or other code, may notice the deadline before the timer of ctx fires. Over
// then waits for that timer, so that the caller gets the cause of its own ctx.
func Over(ctx context.Context) bool {
	if Ended(ctx) == nil {
		return false
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Second): // no timer is so late: this ctx is the caller's own type and ignores its deadline
	}
	return ctx.Err() != nil
}

func (c *Conn) Err() error {
	if err := c.ConnWithTimeout.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut != nil {
		return errCut
	}
	return nil
}

// Close closes the connection, at once, whatever its peer does.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.cut, c.due = errCut, time.Time{}
	c.timer.Stop()
	c.unwatch()
	c.mu.Unlock()
	defer time.AfterFunc(maxGrace, c.hangUp).Stop()
	return c.ConnWithTimeout.Close()
}
