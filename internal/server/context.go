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
// is closed at the deadline as well, and dials hand it on. It makes the channel when a caller asks for it, because that
// is on the path of every lock, and ends with the checkout.
type waitContext struct {
	parent context.Context
	end    time.Time

	mu    sync.Mutex
	inner context.Context // nil: Done was not asked for
	stop  context.CancelFunc
	held  bool // a caller asked for more than Done
}

func (c *waitContext) Deadline() (time.Time, bool) {
	c.hold()
	return c.end, true
}

func (c *waitContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arm()
	return c.inner.Done()
}

// arm makes what Done returns. The caller holds c.mu.
func (c *waitContext) arm() {
	if c.inner == nil {
		c.inner, c.stop = context.WithDeadline(c.parent, c.end)
	}
}

func (c *waitContext) Err() error {
	c.hold()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner != nil && c.inner.Err() != nil {
		return c.inner.Err()
	}
	if !time.Now().Before(c.end) {
		return context.DeadlineExceeded
	}
	return c.parent.Err()
}

func (c *waitContext) Value(key any) any {
	c.hold()
	return c.parent.Value(key)
}

func (c *waitContext) hold() {
	c.mu.Lock()
	c.held = true
	c.mu.Unlock()
}

// over ends it, and reports whether it can be used again: who keeps a context also asks it for its deadline, its
// error or its values.
func (c *waitContext) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		c.arm()
	}
	if c.inner != nil {
		c.stop()
	}
	if c.held {
		return false
	}
	c.inner, c.stop = nil, nil
	return true
}
