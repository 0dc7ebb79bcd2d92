package sim

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"

	punctual "github.com/redimutex/redimutex/internal/conn"
)

// A punctualPool is for the library like a pool of NewPool: the library uses it on the caller's goroutine, because no
// operation of it can outlast its context. That also makes a seed give the same trace. For all other pools the library has
// workers. They wait until the very moment of a deadline, and which goroutine is first at a moment of virtual time is random.
type punctualPool struct{ dialPool }

// Source returns the Source of the dialPool, as that of a punctual pool.
func (p punctualPool) Source() *punctual.Source {
	s := punctual.Of(p.dialPool)
	s.Punctual, s.KeepsContext = true, false
	return s
}

type dialPool struct {
	*redis.Pool
	link *link
}

// Dial makes a connection for a subscription.
func (p dialPool) Dial() (redis.Conn, error) {
	c, err := dial(p.link, nodeTimeout)
	if err != nil {
		return nil, err
	}
	c.astray = p.link.world.Astray && p.link.dice(subscribing).IntN(2) == 0
	return c, nil
}

// DoContext works as in internal/conn: it ends with ctx. If ctx has cut it short and has an Undo, DoContext sends the Undo.
func (c *conn) DoContext(ctx context.Context, command string, args ...any) (reply any, err error) {
	end, err := c.bound(ctx)
	if err != nil {
		return nil, err
	}
	if command == "" {
		err = args[0].(punctual.Batch)(c.Send)
	} else {
		err = c.Send(command, args...)
	}
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		return nil, err
	}
	all, err := c.exchange(ctx.Done(), end)
	switch {
	case err != nil:
		return nil, c.explain(ctx, err)
	case command == "":
		return all, nil
	}
	return last(all)
}

// ReceiveContext waits for the next reply until ctx ends.
func (c *conn) ReceiveContext(ctx context.Context) (any, error) {
	end, err := c.bound(ctx)
	if err != nil {
		return nil, err
	}
	reply, err := c.receive(ctx.Done(), end)
	return reply, c.explain(ctx, err)
}

// bound returns the moment at which an operation must end.
func (c *conn) bound(ctx context.Context) (time.Duration, error) {
	w := c.link.world
	deadline, ok := ctx.Deadline()
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case !ok:
		return w.now() + c.limit, nil
	case !time.Now().Before(deadline):
		return 0, context.DeadlineExceeded
	}
	return deadline.Sub(w.began), nil
}

// explain returns the error of an operation. If ctx has cut the operation short and has an Undo, explain sends the Undo.
func (c *conn) explain(ctx context.Context, err error) error {
	var refused redis.Error
	if err == nil || errors.As(err, &refused) {
		return err
	}
	late := errors.Is(err, os.ErrDeadlineExceeded)
	if undo, _ := ctx.Value(punctual.Undo).([]any); len(undo) > 0 && (late || ctx.Err() != nil) {
		c.write(undo)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case late:
		return context.DeadlineExceeded
	}
	return err
}

// write sends a last command, whose reply no caller waits for.
func (c *conn) write(command []any) {
	words := make([]string, len(command))
	for i, a := range command {
		words[i] = word(a)
	}
	w := c.link.world
	c.mu.Lock()
	c.sent = max(w.now()+c.link.delay(c.link.dice(kindOf(words))), c.sent+1)
	arrives := c.sent
	c.mu.Unlock()
	w.at(arrives, func() { c.arrive([][]string{words}, true, false) })
}
