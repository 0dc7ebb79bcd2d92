package server

import (
	"context"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/punctual"
)

// An opContext is the ctx of the commands of one operation: it ends with the caller's ctx, and has the deadline of the
// operation. Done, Err and Value are those of the caller's ctx, so that context.AfterFunc on it needs no goroutine. Its Done
// is therefore not closed at the deadline, which is for those who ask for it.
type opContext struct {
	context.Context // the caller's
	op              *operation
	deadline        time.Time
	undoes          bool // what is interrupted now is a plain SET
}

func (c *opContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Value answers punctual.Undo with the command that takes back the one that was interrupted, and punctual.Caller, because
// a connection watches its last ctx until it has another, and this one is made for the next operation by then.
func (c *opContext) Value(key any) any {
	switch key {
	case any(punctual.Undo):
		if !c.undoes {
			return nil
		}
		return c.op.args.undo()
	case punctual.Caller:
		return c.Context
	}
	return c.Context.Value(key)
}

// A waitContext is an opContext for the checkout of a connection, which others may keep: pools that wait look for a Done that
// is closed at the deadline as well, and dials hand it on. Most checkouts ask it for nothing, so it becomes a context when
// a caller asks; and ends with the checkout.
type waitContext struct {
	parent context.Context
	end    time.Time

	mu   sync.Mutex
	real context.Context // nil: it was asked for nothing
	stop context.CancelFunc
}

func (c *waitContext) asked() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		c.real, c.stop = context.WithDeadline(c.parent, c.end)
	}
	return c.real
}

func (c *waitContext) Deadline() (time.Time, bool) { return c.asked().Deadline() }
func (c *waitContext) Done() <-chan struct{}       { return c.asked().Done() }
func (c *waitContext) Err() error                  { return c.asked().Err() }
func (c *waitContext) Value(key any) any           { return c.asked().Value(key) }

// over ends it, and reports whether it can be used again: none can have kept it.
func (c *waitContext) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real != nil {
		c.stop()
	}
	return c.real == nil
}
