package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A deadlineContext is a context.WithDeadline for the checkout of a connection, which is on the path
// of every lock. It makes its timer and its channel when somebody asks for them, as a pool that waits
// for connections does each time, and is used again if nobody can have held on to it: who keeps a
// context also asks it for its deadline, its error or its values.
//
// It is used again by its own server only: a timer must not leave the testing/synctest bubble in which
// it was made.
type deadlineContext struct {
	home     *sync.Pool
	deadline time.Time
	done     chan struct{} // closed by the timer, or when the context is over and may be held on to
	timer    *time.Timer
	armed    bool        // Done was asked for since the context began
	held     atomic.Bool // somebody asked for more than Done
	over     atomic.Bool
}

func (s *Server) newDeadlineContext(deadline time.Time) *deadlineContext {
	c, ok := s.contexts.Get().(*deadlineContext)
	if !ok {
		c = &deadlineContext{home: &s.contexts}
	}
	c.deadline = deadline
	return c
}

func (c *deadlineContext) Deadline() (time.Time, bool) {
	c.held.Store(true)
	return c.deadline, true
}

func (c *deadlineContext) Value(any) any {
	c.held.Store(true)
	return nil
}

func (c *deadlineContext) Done() <-chan struct{} {
	if !c.armed {
		c.armed = true
		if c.timer == nil {
			done := make(chan struct{})
			c.done = done
			c.timer = time.AfterFunc(time.Until(c.deadline), func() { close(done) })
		} else {
			c.timer.Reset(time.Until(c.deadline))
		}
	}
	return c.done
}

func (c *deadlineContext) Err() error {
	c.held.Store(true)
	switch {
	case !time.Now().Before(c.deadline):
		return context.DeadlineExceeded
	case c.over.Load():
		return context.Canceled
	}
	return nil
}

// free ends the context, and keeps it for the next checkout if it is as new.
func (c *deadlineContext) free() {
	stopped := !c.armed || c.timer.Stop()
	switch {
	case c.held.Load():
		c.over.Store(true)
		if c.armed && stopped {
			close(c.done)
		}
	case stopped:
		c.armed = false
		c.home.Put(c)
	}
}
