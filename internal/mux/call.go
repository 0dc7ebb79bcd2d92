package mux

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
)

// A call is a command, or a batch of them, on its way to the server and back. It belongs to its caller, except between
// enqueue and the message on done, or leave: there it is protected by link.mu.
type call struct {
	began   time.Time
	overdue time.Time // when the link is taken for dead without its replies
	at      int       // the place of its first command in link.out, as long as that is not written
	owed    int       // replies that are to come
	replies []any
	undo    []any // a command to write behind it if it is late; it belongs to the caller

	done  chan error // gets nil with the last reply, or why there is none; nil: no caller waits
	timer *time.Timer
}

func newCall() any { return &call{done: make(chan error, 1), timer: time.NewTimer(time.Hour)} }

func (c *call) tell(err error) {
	if c.done != nil {
		c.done <- err
	}
}

// DoContext sends a command and returns its reply. It waits no longer than ctx lasts, which must have a deadline. Then the
// [conn.Undo] of ctx, a command with its arguments, is written behind the command on the same connection: whenever the
// server gets to executing the first, it executes the second next. If the command is still waiting to be written, it never
// is. Without a command it is for a [conn.Batch], in whose replies errors of the server stand.
func (l *link) DoContext(ctx context.Context, name string, args ...any) (reply any, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	c := l.pool.calls.Get().(*call)
	c.began = time.Now()
	c.overdue = c.began.Add(max(l.pool.bound, deadline.Sub(c.began)) + patience) // the caller may have less time than the server
	c.undo, _ = ctx.Value(conn.Undo).([]any)
	c.timer.Reset(deadline.Sub(c.began))
	if err = l.enqueue(ctx, c, name, args); err == nil {
		err = l.await(ctx, c)
	}
	switch {
	case err != nil:
	case name == "":
		reply, c.replies = c.replies, nil
	default:
		reply = c.replies[0]
		if refused, ok := reply.(redis.Error); ok {
			reply, err = nil, refused
		}
	}
	c.timer.Stop()
	clear(c.replies)
	c.replies, c.undo = c.replies[:0], nil
	l.pool.calls.Put(c)
	return reply, err
}

// await waits for the outcome of c until ctx or its deadline ends.
func (l *link) await(ctx context.Context, c *call) error {
	late := conn.ErrTimeout
	select {
	case err := <-c.done:
		return err
	case <-c.timer.C:
	case <-ctx.Done():
		late = ctx.Err()
	}
	if l.leave(c) {
		return late
	}
	return <-c.done // it came in that moment
}

// Err returns why the connection can't be used any more, or nil.
func (l *link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close gives the connection back.
func (l *link) Close() error {
	if l.alone {
		l.end(errClosed)
	}
	return nil
}

// Discard has the shared connection dialled anew, because it leads to a server that has become a replica.
func (l *link) Discard() {
	if time.Since(l.born) > minLife {
		l.end(errDemoted)
	}
}

// These are not supported: what is sent has to have a deadline.

func (*link) Do(string, ...any) (any, error) { return nil, errors.ErrUnsupported }
func (*link) Send(string, ...any) error      { return errors.ErrUnsupported }
func (*link) Flush() error                   { return errors.ErrUnsupported }
func (*link) Receive() (any, error)          { return nil, errors.ErrUnsupported }
