package conn

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// errNoTimeout is redigo's error for a connection without DoWithTimeout. redigo does not export it, so this call provokes it.
var _, errNoTimeout = redis.DoWithTimeout(struct{ redis.Conn }{}, 0, "")

// ErrNoSend is the error of a command with an [Undo], or of a pipeline, on a connection with Do alone: redisc's RetryConn.
var ErrNoSend = errors.New("the connection can't send without waiting for the reply")

// Do runs a command on c, a connection of s, until the deadline of ctx, which must have one. On a punctual connection it also
// ends when ctx is cancelled. If the deadline passes after the command was written, the [Undo] of ctx is written behind it.
func (s *Source) Do(ctx context.Context, c redis.Conn, command string, args ...any) (reply any, err error) {
	defer Caught(&err)
	if s.Punctual {
		return redis.DoContext(c, ctx, command, args...)
	}
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	if left <= 0 {
		return nil, ErrTimeout
	}
	if undo, _ := ctx.Value(Undo).([]any); len(undo) > 0 {
		if err := send(c, command, args...); err != nil {
			return nil, err
		}
		return undoable(c, left, undo)
	}
	return within(c, left, command, args...)
}

func within(c redis.Conn, d time.Duration, command string, args ...any) (any, error) {
	reply, err := redis.DoWithTimeout(c, d, command, args...)
	if err == errNoTimeout { //nolint:errorlint // the very value; nothing was sent
		reply, err = c.Do(command, args...)
	}
	return reply, err
}

const (
	// grace is how long past the deadline the read goes on: a busy machine is late, and the undo needs an open connection.
	grace = 100 * time.Millisecond
	drain = 20 * time.Millisecond // how long to wait for a reply that should have arrived already
)

// undoable receives the reply to a command over a connection that knows no ctx. When left is over, it writes the undo.
func undoable(c redis.Conn, left time.Duration, undo []any) (any, error) {
	if err := c.Flush(); err != nil {
		return nil, err
	}
	var undoing sync.WaitGroup
	undoing.Add(1)
	late := time.AfterFunc(left, func() { // beside the goroutine that waits for the reply, which redigo allows
		defer undoing.Done()
		defer Caught(new(error))
		if c.Send(undo[0].(string), undo[1:]...) == nil {
			_ = c.Flush() // if this fails, only the release in the background remains
		}
	})
	reply, err := Receive(c, left+grace)
	if late.Stop() {
		return reply, err
	}
	undoing.Wait()
	if c.Err() == nil { // the reply came just at the deadline; the reply to the undo is still due
		_, _ = Receive(c, drain)
	}
	return nil, ErrTimeout
}

func Receive(c redis.Conn, d time.Duration) (reply any, err error) {
	defer Caught(&err)
	reply, err = redis.ReceiveWithTimeout(c, d)
	if err == errNoTimeout { //nolint:errorlint // the very value; nothing was read
		reply, err = c.Receive()
	}
	return reply, err
}

func send(c redis.Conn, command string, args ...any) error {
	err := c.Send(command, args...)
	if err != nil && c.Err() == nil {
		return ErrNoSend
	}
	return err
}

// Batch runs n commands in one round trip, within the deadline of ctx. lay returns the i-th command and its arguments. Errors
// of the server stand in the replies. An error of the connection is returned. The buffer is written whenever it is full, so
// the server may execute the first command before lay has returned the last.
func (s *Source) Batch(ctx context.Context, c redis.Conn, n int, lay func(i int) (string, []any)) (replies []any, err error) {
	defer Caught(&err)
	var batch Batch = func(send func(string, ...any) error) error {
		for i := range n {
			command, args := lay(i)
			if err := send(command, args...); err != nil {
				return err
			}
		}
		return nil
	}
	var raw any
	if s.Punctual {
		raw, err = s.Do(ctx, c, "", batch)
	} else if err = batch(func(command string, args ...any) error { return send(c, command, args...) }); err == nil {
		deadline, _ := ctx.Deadline()
		raw, err = within(c, max(time.Until(deadline), time.Microsecond), "")
	}
	replies, _ = raw.([]any)
	if err == nil && len(replies) != n {
		err = errors.New("the connection of this pool does not answer Do(\"\") with all replies of a pipeline, as redigo does")
	}
	return replies, err
}

// Close gives a connection back to its pool. If the connection is bad, Close breaks it first, by a reply that does not come in
// time: redigo's pools throw away a broken connection.
func Close(c redis.Conn, bad bool) {
	defer Caught(new(error))
	defer c.Close()
	if !bad {
		return
	}
	if d, ok := c.(interface{ Discard() }); ok { // a shared connection of package mux
		d.Discard()
		return
	}
	if _, err := redis.DoWithTimeout(c, time.Nanosecond, "PING"); err == errNoTimeout { //nolint:errorlint // the very value
		_, _ = c.Do("QUIT") // the server hangs up, and the next user finds the connection broken
	}
}
