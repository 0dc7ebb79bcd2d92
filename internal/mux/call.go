package mux

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
)

// A call is a command, or a batch of commands, on its way to the server and back. It belongs to its caller before enqueue and
// after the message on done. In between link.mu protects it. The writer reads commands and args without link.mu, so a call is
// reused only after it was answered.
type call struct {
	commands []command
	args     []any // of all commands: strings and numbers
	undo     []any // the command to write behind it if it is late; belongs to the caller
	undoes   bool  // it is an undo itself
	began    time.Time
	due      time.Time // when its caller leaves; after that it equals overdue
	overdue  time.Time // if replies are still missing then, the link counts as dead
	replies  []any
	settled  bool       // its caller has an outcome, or has left
	done     chan error // gets nil with the last reply, or else the error
}

type command struct {
	name string
	args int // how many
}

func (c *call) tell(err error) {
	if !c.settled {
		c.settled = true
		c.done <- err
	}
}

// add copies a command with its arguments, because a caller that has left may change them.
func (c *call) add(name string, args ...any) error {
	c.commands = append(c.commands, command{name, len(args)})
	c.args = append(c.args, args...)
	return nil
}

// undoCall returns the call that undoes c. No caller waits for it.
func (c *call) undoCall() *call {
	u := &call{undoes: true, began: time.Now(), due: c.overdue.Add(maxFarewell), settled: true}
	u.add(c.undo[0].(string), c.undo[1:]...) //nolint:errcheck // never fails
	c.undo = nil
	return u
}

// DoContext sends a command and returns its reply. It waits until ctx ends at the latest; ctx must have a deadline. If ctx
// ends first, the [conn.Undo] of ctx is written behind the command. A command that is not written yet is never written. With a
// [conn.Batch] in place of a command, errors of the server stand in the replies.
func (l *link) DoContext(ctx context.Context, name string, args ...any) (reply any, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	c := l.pool.calls.Get().(*call)
	c.began = time.Now()
	left := deadline.Sub(c.began)
	c.due, c.overdue = c.began.Add(left), c.began.Add(max(l.pool.bound, left)+patience) // a caller may have less time
	c.undo, _ = ctx.Value(conn.Undo).([]any)
	if name == "" {
		err = args[0].(conn.Batch)(c.add)
	} else {
		err = c.add(name, args...)
	}
	if err != nil || len(c.commands) == 0 {
		return nil, err
	}
	if err = l.enqueue(c); err != nil {
		return nil, err
	}
	select {
	case err = <-c.done:
	case <-ctx.Done(): // the deadline itself is watched by the link
		l.mu.Lock()
		l.abandon(c, ctx.Err())
		l.mu.Unlock()
		err = <-c.done // another outcome may have come first
	}
	if err != nil {
		return nil, err
	}
	refused, said := c.replies[0].(redis.Error)
	switch {
	case name == "":
		reply, c.replies = c.replies, nil
	case said:
		err = refused
	default:
		reply = c.replies[0]
	}
	if said { // perhaps unasked, by a server that hangs up: the writer may still read c, so don't reuse it
		return reply, err
	}
	clear(c.args)
	clear(c.replies)
	*c = call{commands: c.commands[:0], args: c.args[:0], replies: c.replies[:0], done: c.done}
	l.pool.calls.Put(c)
	return reply, err
}

func (l *link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *link) Close() error {
	if l.single {
		l.end(errClosed)
	}
	return nil
}

// Discard ends the shared connection, so that it is dialled anew: its server has become a replica.
func (l *link) Discard() {
	if time.Since(l.born) > minLife {
		l.end(errDemoted)
	}
}
