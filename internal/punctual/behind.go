package punctual

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// A Behind runs dials that may block for as long as they like, and leaves those behind whose callers have gone. While 16
// of them hang, there are no more dials. The zero Behind can be used.
type Behind struct{ hung atomic.Int32 }

const maxHung = 16

var errHung = errors.New("too many dials hang already")

// Dial returns what dial does, or the error of ctx when that ends. A connection that is made later is closed.
func (b *Behind) Dial(ctx context.Context, dial func(context.Context) (redis.Conn, error)) (redis.Conn, error) {
	if b.hung.Load() >= maxHung {
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
	caught := func() (c redis.Conn, err error) {
		defer Caught(&err)
		if c, err = dial(ctx); err == nil {
			_ = c.Err() // panics here, and not in the middle of an operation, if there is no connection
		}
		return c, err
	}
	go func() {
		c, err := caught()
		select {
		case done <- outcome{c, err}:
		case <-ctx.Done():
			b.hung.Add(-1)
			if err == nil {
				c.Close()
			}
		}
	}()
	select {
	case o := <-done:
		return o.conn, o.err
	case <-ctx.Done():
		b.hung.Add(1)
		return nil, ctx.Err()
	}
}

// Caught makes a panic an error. It has to be deferred itself. What is the user's may run on a goroutine of ours, where a
// panic would end the process.
func Caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the pool panicked: %v", r)
	}
}
