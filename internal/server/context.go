package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/punctual"
)

// An opContext is the ctx of the commands of one operation: it ends with the caller's ctx, and has the deadline of the
// operation. Done and Value are those of the caller's ctx, so that context.AfterFunc on it needs no goroutine. Its Done
// is therefore not closed at the deadline, which is for those who ask for that.
type opContext struct {
	context.Context // the caller's
	op              *operation
	deadline        time.Time
	undoes          bool // what is interrupted now is a plain SET
}

func (c *opContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *opContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(c.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value answers punctual.Undo with the command that takes back the one that was interrupted.
func (c *opContext) Value(key any) any {
	if key == any(punctual.Undo) {
		if !c.undoes {
			return nil
		}
		return undoPlain(&c.op.try)
	}
	return c.Context.Value(key)
}

// A waitContext is an opContext for pools that wait for connections: its Done is closed at the deadline as well. It makes
// the channel when somebody asks for it, and ends with the checkout.
type waitContext struct {
	op    *operation
	inner context.Context // nil: Done was not asked for
	stop  context.CancelFunc
	held  atomic.Bool // somebody asked for more than Done, and so may keep it
	over  atomic.Bool
}

func (c *waitContext) Deadline() (time.Time, bool) {
	c.held.Store(true)
	return c.op.end, true
}

func (c *waitContext) Done() <-chan struct{} {
	if c.inner == nil {
		c.inner, c.stop = context.WithDeadline(c.op.ctx.Context, c.op.end)
	}
	return c.inner.Done()
}

func (c *waitContext) Err() error {
	c.held.Store(true)
	switch {
	case c.inner != nil && c.inner.Err() != nil:
		return c.inner.Err()
	case !time.Now().Before(c.op.end):
		return context.DeadlineExceeded
	case c.over.Load():
		return context.Canceled
	}
	return c.op.ctx.Context.Err()
}

func (c *waitContext) Value(key any) any {
	c.held.Store(true)
	return c.op.ctx.Context.Value(key)
}

// free ends it, and reports whether it can be used again: who keeps a context also asks it for its deadline, its
// error or its values.
func (c *waitContext) free() bool {
	if c.held.Load() {
		c.over.Store(true)
		c.Done()
	}
	if c.inner != nil {
		c.stop()
	}
	if c.held.Load() {
		return false
	}
	c.inner, c.stop = nil, nil
	return true
}
