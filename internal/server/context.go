package server

import (
	"context"
	"sync"
	"time"
)

// A deadlineContext is a context.WithDeadline that makes its timer and its channel only when
// somebody asks for them. A pool with an idle connection never does, and the checkout of a
// connection is on the path of every lock.
type deadlineContext struct {
	deadline time.Time
	real     context.Context
	cancel   context.CancelFunc
}

func (c *deadlineContext) Deadline() (time.Time, bool) { return c.deadline, true }
func (c *deadlineContext) Value(any) any               { return nil }

func (c *deadlineContext) Done() <-chan struct{} {
	if c.real == nil {
		c.real, c.cancel = context.WithDeadline(context.Background(), c.deadline)
	}
	return c.real.Done()
}

func (c *deadlineContext) Err() error {
	if c.real != nil {
		return c.real.Err()
	}
	if !time.Now().Before(c.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

var deadlineContexts = sync.Pool{New: func() any { return new(deadlineContext) }}

func newDeadlineContext(deadline time.Time) *deadlineContext {
	c := deadlineContexts.Get().(*deadlineContext)
	c.deadline = deadline
	return c
}

// free ends the context. One that somebody may still hold on to is not used again.
func (c *deadlineContext) free() {
	if c.cancel != nil {
		c.cancel()
		return
	}
	deadlineContexts.Put(c)
}
