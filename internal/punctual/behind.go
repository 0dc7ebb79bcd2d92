package punctual

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

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
	t := &oneDial{done: make(chan struct{})}
	go t.run(ctx, b, dial)
	select {
	case <-t.done:
	case <-ctx.Done():
		if !t.ends() && t.leave(b) {
			return nil, ctx.Err()
		}
		<-t.done
	}
	if t.err != nil {
		return nil, t.err
	}
	return t.conn, nil
}

// A oneDial is a dial on its way.
type oneDial struct {
	done  chan struct{} // closed when the others are set
	conn  redis.Conn
	err   error
	state atomic.Int32
}

const (
	underway = iota
	finished
	abandoned
)

func (t *oneDial) run(ctx context.Context, b *Behind, dial func(context.Context) (redis.Conn, error)) {
	t.conn, t.err = dial(ctx)
	if t.state.CompareAndSwap(underway, finished) {
		close(t.done)
		return
	}
	if t.err == nil {
		t.conn.Close()
	}
	b.hung.Add(-1)
}

// ends gives a dial that was interrupted the moment that it needs to end.
func (t *oneDial) ends() bool {
	timer := time.NewTimer(maxGrace)
	defer timer.Stop()
	select {
	case <-t.done:
		return true
	case <-timer.C:
		return false
	}
}

// leave reports whether the dial goes on by itself. Else it has just finished.
func (t *oneDial) leave(b *Behind) bool {
	b.hung.Add(1)
	if t.state.CompareAndSwap(underway, abandoned) {
		return true
	}
	b.hung.Add(-1)
	return false
}
