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

var errDemoted = errors.New("the server has become a replica")

// Err returns why the connection can't be used any more, or nil.
func (c *Conn) Err() error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	return c.link.err
}

// Close gives the connection back.
func (c *Conn) Close() error {
	if c.alone {
		c.link.end(errClosed)
	}
	return nil
}

// Discard has the shared connection dialled anew, because it leads to a server that has become a replica.
func (c *Conn) Discard() {
	if time.Since(c.link.born) > minLife {
		c.link.end(errDemoted)
	}
}

// Do is not supported: what is sent has to have a deadline.
func (*Conn) Do(string, ...any) (any, error) { return nil, errors.ErrUnsupported }

// Send is not supported either.
func (*Conn) Send(string, ...any) error { return errors.ErrUnsupported }

// Flush is not supported either.
func (*Conn) Flush() error { return errors.ErrUnsupported }

// Receive is not supported either.
func (*Conn) Receive() (any, error) { return nil, errors.ErrUnsupported }

// DoContext sends a command and returns its reply. It waits no longer than ctx lasts, which must have a deadline. Then the
// [punctual.Undo] of ctx, a command with its arguments, is written behind the command on the same connection: whenever the
// server gets to executing the first, it executes the second next. If the command is still waiting to be written, it never
// is. Without a command it is for a [punctual.Batch], in whose replies errors of the server stand.
func (c *Conn) DoContext(ctx context.Context, name string, args ...any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	pool := c.link.pool
	k := pool.newCall()
	if name != "" {
		k.add(name, args...) //nolint:errcheck // never fails
	} else if err := punctual.SendBatch(ctx, k.add); err != nil || len(k.commands) == 0 {
		return []any{}, err
	}
	k.undo, _ = ctx.Value(punctual.Undo).([]any)
	k.deadline, _ = ctx.Deadline()
	if err := c.link.do(ctx, k); err != nil {
		k.timer.Stop()
		return nil, err
	}
	if name == "" {
		replies := k.replies
		k.replies = nil
		pool.free(k)
		return replies, nil
	}
	reply := k.replies[0]
	pool.free(k)
	if refused, ok := reply.(redis.Error); ok {
		return nil, refused
	}
	return reply, nil
}
