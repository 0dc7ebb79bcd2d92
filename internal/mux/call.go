package mux

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A call is a command on its way to the server and back.
type call struct {
	name string
	args []any

	undo []any // a command to write if it is late; it belongs to the caller, and is there until done

	deadline time.Time
	over     bool // has an outcome, or no caller waits for one any more. Protected by link.mu

	// Set before done, which ends the writing to it.
	reply any
	err   error
	done  chan struct{}
	again bool // only the caller has a hold of it: it can be used again
}

// newCall takes the arguments over: a caller that gives up may use them for something else while
// they are still to be written.
func (l *link) newCall(name string, args []any) *call {
	c, _ := l.calls.Get().(*call)
	if c == nil {
		c = &call{done: make(chan struct{}, 1)}
	}
	c.name = name
	for _, arg := range args {
		c.args = append(c.args, snapshot(arg, true))
	}
	return c
}

// outcome takes what a call that is done was about.
func (l *link) outcome(c *call) (any, error) {
	reply, err := c.reply, c.err
	if c.again {
		l.free(c)
	}
	return reply, err
}

// free is for a call that no other process has a hold of.
func (l *link) free(c *call) {
	clear(c.args)
	*c = call{args: c.args[:0], done: c.done}
	l.calls.Put(c)
}

// snapshot returns arg, or what redigo would write for it if it can still change.
func snapshot(arg any, mayAsk bool) any {
	switch v := arg.(type) {
	case string, int, int64, float64, bool, nil:
		return arg
	case []byte:
		return slices.Clone(v)
	case redis.Argument:
		if mayAsk {
			return snapshot(v.RedisArg(), false)
		}
	}
	return fmt.Sprint(arg)
}

// A timeoutError is what a caller gets whose reply did not come in time.
type timeoutError struct{ written bool }

var (
	errLate   error = timeoutError{true}
	errUnsent error = timeoutError{false}
)

func (e timeoutError) Error() string {
	if !e.written {
		return "no reply in time: the connection is stuck, and the command was not sent"
	}
	return "no reply in time over a shared connection"
}
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }
