package mux

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
)

// A call is a command, or a batch of them, on its way to the server and back. It belongs to its caller before enqueue and
// after the message on done; in between link.mu protects it. The writer looks at its commands without that, so it is used
// again only after it was answered.
type call struct {
	commands []command
	args     []any // of all commands: strings and numbers
	undo     []any // a command to write behind it if it is late; it belongs to the caller
	undoes   bool  // it is such a command itself
	began    time.Time
	due      time.Time // when its caller leaves; once that has left, as overdue
	overdue  time.Time // without its replies by then, the link is taken for dead
	replies  []any
	told     bool       // its caller has an outcome, or has left
	done     chan error // gets nil with the last reply, or why there is none
}

type command struct {
	name string
	args int // how many
}

func (c *call) tell(err error) {
	if !c.told {
		c.told = true
		c.done <- err
	}
}

// add copies a command with its arguments: the caller may use them for something else when it has left.
func (c *call) add(name string, args ...any) error {
	c.commands = append(c.commands, command{name, len(args)})
	c.args = append(c.args, args...)
	return nil
}

// takeBack returns the call that undoes c. No caller waits for it.
func (c *call) takeBack() *call {
	u := &call{undoes: true, began: time.Now(), due: c.overdue.Add(maxFarewell), told: true}
	u.add(c.undo[0].(string), c.undo[1:]...) //nolint:errcheck // never fails
	c.undo = nil
	return u
}

// DoContext sends a command and returns its reply. It waits no longer than ctx lasts, which must have a deadline. Then the
// [conn.Undo] of ctx is written behind the command; one that is still waiting to be written never is. With a [conn.Batch] in
// the place of a command, errors of the server stand in the replies.
func (l *link) DoContext(ctx context.Context, name string, args ...any) (reply any, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	c := l.pool.calls.Get().(*call)
	c.began = time.Now()
	left := deadline.Sub(c.began)
	c.due, c.overdue = c.began.Add(left), c.began.Add(max(l.pool.bound, left)+patience) // a caller may have less than a server
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
	case <-ctx.Done(): // at its deadline the link has it leave
		l.mu.Lock()
		l.abandon(c, ctx.Err())
		l.mu.Unlock()
		err = <-c.done // perhaps another outcome came in that moment
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
	if said { // a server that hangs up says so unasked, while the writer may still read c
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
