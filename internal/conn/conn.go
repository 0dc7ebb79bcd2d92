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

// A Conn is a connection of redigo whose operations end with their contexts, on the goroutine of the caller and with no
// other beside it. As with redigo's own, one goroutine may send and flush while another receives, and an operation that was
// cut short has broken it for good: Err reports that, and a redis.Pool closes it.
// An operation is cut short by closing the network below it. A timer does that, or the ctx itself. Operations without a ctx
// are those of redigo, with the timeouts that the connection was dialled with.
type Conn struct {
	redis.ConnWithTimeout
	network io.Closer // below redigo, and below TLS, whose goodbye may take as long as the peer likes

	mu    sync.Mutex
	cut   error           // not nil: it has ended, and why
	ctx   context.Context // of the operation under way; nil: none
	due   time.Time       // its deadline; zero: none
	undo  []any           // not nil: its command is written, this takes it back, and nothing else is being written
	timer *time.Timer     // looks at the operation when it is due

	undoing sync.WaitGroup // a look that ends the operation, and writes its undo

	// A registration with a ctx costs more than all the rest together. So it stays for the operations to come, until one has
	// another ctx, and does nothing between them.
	watched <-chan struct{} // the Done of the ctx
	unwatch func() bool     // ends the registration
}

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
)

// A Batch calls send for each command, and returns its first error. It is the argument of a DoContext without a command,
// which returns all replies. Commands that are sent before a DoContext may fill the buffer, and no ctx bounds that write.
type Batch = func(send func(command string, args ...any) error) error

// maxGrace bounds what is written after the end: a command to undo the one that was cut short, and the goodbye of TLS. No
// caller waits for room: they are small, and only a peer that takes nothing has none left.
const maxGrace = 5 * time.Millisecond

var errCut = errors.New("the connection was given up: an operation on it was cut short by its context")

// DoContext is Do that ends with ctx, by its deadline or when it is cancelled. Then the error is that of ctx, or
// context.DeadlineExceeded where only the clock has told so far. A ctx with a deadline replaces the timeout for reading that
// the connection was dialled with; a command whose ctx has ended before it was sent leaves the connection as it was.
// A ctx that ends as the reply arrives may break the connection as well, but not the reply, unless that was undone.
func (c *Conn) DoContext(ctx context.Context, command string, args ...any) (reply any, err error) {
	bounded, err := c.begin(ctx, command == "" && len(args) == 0)
	if err != nil {
		return nil, err
	}
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
	return c.finish(reply, err)
}

// undoable is Do in steps: as soon as the command is written another goroutine may write behind it.
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
func (c *Conn) ReceiveContext(ctx context.Context) (any, error) {
	bounded, err := c.begin(ctx, true)
	if err != nil {
		return nil, err
	}
	return c.finish(c.receive(bounded))
}

// begin has what is written and read from now on end with ctx, unless that has ended already. It reports whether ctx has a
// deadline. owed: replies to what was sent before may be still to come.
func (c *Conn) begin(ctx context.Context, owed bool) (bounded bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut != nil {
		return false, errCut
	}
	if err := Ended(ctx); err != nil {
		if owed {
			c.cut = err // no caller has the time to receive them
			c.hangUp()
		}
		return false, err
	}
	c.ctx, c.due = ctx, time.Time{}
	deadline, bounded := ctx.Deadline()
	if bounded {
		now := time.Now()
		left := deadline.Sub(now)
		c.due = now.Add(left) // on the clock of the timer
		c.timer.Reset(left)
	}
	if done := ctx.Done(); done != nil && done != c.watched {
		c.unwatch()
		if caller, ok := ctx.Value(Caller).(context.Context); ok {
			ctx = caller
		}
		c.watched, c.unwatch = done, context.AfterFunc(ctx, c.look)
	}
	return bounded, nil
}

// finish ends an operation. A deadline or a cancellation that comes later does nothing. The caller may write
// as soon as it is back, so it waits for an undo that is being written.
func (c *Conn) finish(reply any, err error) (any, error) {
	c.mu.Lock()
	c.timer.Stop()
	cut, undone := c.cut, c.cut != nil && c.undo != nil
	c.ctx, c.undo = nil, nil
	c.mu.Unlock()
	c.undoing.Wait()
	if undone || cut != nil && err != nil && c.ConnWithTimeout.Err() != nil { // else it is an error of the server
		return nil, cut
	}
	return reply, err
}

// look cuts the operation under way short if it is over: the goroutines that read or write return at once. If its Undo can
// be written, it is: redigo allows a Send and a Flush beside a Receive. An operation that is about to begin will see by
// itself that it is over.
func (c *Conn) look() {
	c.mu.Lock()
	late := !c.due.IsZero() && !time.Now().Before(c.due)
	if c.ctx == nil || c.cut != nil || c.ctx.Err() == nil && !late {
		c.mu.Unlock()
		return
	}
	c.cut = cmp.Or(c.ctx.Err(), context.DeadlineExceeded)
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

// Ended returns why ctx has ended, or nil. The clock may know it before ctx does.
func Ended(ctx context.Context) error {
	if deadline, bounded := ctx.Deadline(); ctx.Err() == nil && bounded && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// Over reports whether ctx has ended. Its deadline is kept by others too, and they may notice it before the
// timer of ctx has fired; then it is waited for, so that the caller gets the cause of its own ctx.
func Over(ctx context.Context) bool {
	if Ended(ctx) == nil {
		return false
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Second): // no timer is so late: a context of the caller's own that does not keep its deadline
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
	c.cut = errCut
	c.unwatch()
	c.mu.Unlock()
	defer time.AfterFunc(maxGrace, c.hangUp).Stop()
	return c.ConnWithTimeout.Close()
}
