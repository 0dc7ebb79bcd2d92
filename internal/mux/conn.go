package mux

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/punctual"
)

// A Conn is one operation's use of a shared connection. All goes through DoContext: a command, or a batch of them.
type Conn struct {
	link  *link
	alone bool // no other caller uses the link
}

var _ redis.Conn = (*Conn)(nil)

// maxWait bounds commands whose ctx has no deadline.
const maxWait = 5 * time.Second

var errDemoted = errors.New("the server has become a replica")

// Err returns why the connection can't be used any more, or nil.
func (c *Conn) Err() error { return c.link.broken() }

// Close gives the connection back. The next call fails what is under way, so there must be none.
func (c *Conn) Close() error {
	if c.alone {
		c.link.fail(errClosed)
	}
	return nil
}

// Do is DoContext without a ctx.
func (c *Conn) Do(name string, args ...any) (any, error) {
	return c.DoContext(context.Background(), name, args...)
}

// Send is not supported.
func (*Conn) Send(string, ...any) error { return errors.ErrUnsupported }

// Flush is not supported.
func (*Conn) Flush() error { return errors.ErrUnsupported }

// Receive is not supported.
func (*Conn) Receive() (any, error) { return nil, errors.ErrUnsupported }

// DoContext sends a command and returns its reply. It waits no longer than ctx lasts. Then the [punctual.Undo] of ctx, a
// command with its arguments, is written behind the command on the same connection: whenever the server gets to executing
// the first, it executes the second next. If the command is still waiting to be written, it never is. Without a command it
// is for a [punctual.Batch].
func (c *Conn) DoContext(ctx context.Context, name string, args ...any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(maxWait)
	}
	if name == "" {
		return c.batch(ctx, deadline)
	}
	call := c.link.newCall(name, args)
	call.deadline = deadline
	call.undo, _ = ctx.Value(punctual.Undo).([]any)
	if err := c.link.put(call); err != nil {
		return nil, err
	}
	return c.link.wait(ctx, call)
}

// batch is DoContext for many commands. Errors of the server stand in the replies.
func (c *Conn) batch(ctx context.Context, deadline time.Time) (any, error) {
	var calls []*call
	err := punctual.SendBatch(ctx, func(name string, args ...any) error {
		call := c.link.newCall(name, args)
		call.deadline = deadline
		calls = append(calls, call)
		return nil
	})
	if err == nil {
		err = c.link.put(calls...)
	}
	if err != nil {
		return nil, err
	}
	replies := make([]any, len(calls))
	for i, call := range calls {
		reply, err := c.link.wait(ctx, call)
		if fatal(err) {
			for _, rest := range calls[i+1:] {
				c.link.abandon(rest)
			}
			return nil, err
		}
		if replies[i] = reply; err != nil {
			replies[i] = err
		}
	}
	return replies, nil
}

// wait returns the outcome of a call that was handed over, or why ctx has ended.
func (l *link) wait(ctx context.Context, c *call) (any, error) {
	if over := ctx.Done(); over != nil { // else the deadline ends the call, and a select takes longer
		select {
		case <-c.done:
			return l.outcome(c)
		case <-over:
			if l.cut(c) {
				return nil, ctx.Err()
			}
		}
	}
	<-c.done
	return l.outcome(c)
}

// Discard has the shared connection dialled anew, because it leads to a server that has become a replica.
func (c *Conn) Discard() {
	if time.Since(c.link.born) > minLife {
		c.link.fail(errDemoted)
	}
}

// fatal reports whether err has broken a connection, rather than being the word of the server.
func fatal(err error) bool {
	if err == nil {
		return false
	}
	var refused redis.Error
	return !errors.As(err, &refused)
}
