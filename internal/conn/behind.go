package conn

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// A hung counts the dials that go on although their callers have gone: they may block for as long as they like. While
// maxHung of them do, there are no more.
type hung struct{ atomic.Int32 }

const maxHung = 16

var errHung = errors.New("too many dials hang already")

// dial returns what f does, or the error of ctx when that ends. A connection that is made later is closed.
func (h *hung) dial(ctx context.Context, f Dial) (redis.Conn, error) {
	if h.Load() >= maxHung {
		return nil, errHung
	}
	var cancel context.CancelFunc
	if deadline, ok := ctx.Deadline(); ok { // ctx need not end by itself
		ctx, cancel = context.WithDeadline(ctx, deadline)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	type outcome struct {
		conn redis.Conn
		err  error
	}
	done := make(chan outcome) // either both sides see the outcome on it, or both that ctx has ended
	tried := func() (c redis.Conn, err error) {
		defer caught(&err)
		if c, err = f(ctx); err == nil {
			_ = c.Err() // panics here, and not in the middle of an operation, if there is no connection
		}
		return c, err
	}
	go func() {
		c, err := tried()
		select {
		case done <- outcome{c, err}:
		case <-ctx.Done():
			h.Add(-1)
			if err == nil {
				c.Close()
			}
		}
	}()
	select {
	case o := <-done:
		return o.conn, o.err
	case <-ctx.Done():
		h.Add(1)
		return nil, ctx.Err()
	}
}

// caught makes a panic an error. It has to be deferred itself. What is the user's may run on a goroutine of ours, where a
// panic would end the process.
func caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the pool panicked: %v", r)
	}
}
