package conn

import (
	"context"
	"errors"
	"runtime"

	"github.com/gomodule/redigo/redis"
)

// Get checks a connection out of the pool, within ctx where the pool can do that. Errors are as [Plain] has them.
func (s *Source) Get(ctx context.Context) (redis.Conn, error) {
	c, err := s.guarded(ctx)
	if err != nil {
		return nil, Plain(err)
	}
	return c, nil
}

func checkout(pool Pool) dialling {
	if p, ok := pool.(interface {
		GetContext(context.Context) (redis.Conn, error)
	}); ok {
		return p.GetContext
	}
	return func(context.Context) (redis.Conn, error) {
		c := pool.Get()
		if err := c.Err(); err != nil {
			c.Close()
			return nil, err
		}
		return c, nil
	}
}

// guarded is the checkout. redigo v1.9.3 panics where a pool that has its callers wait is closed and the ctx ends: it
// gives a place back to a channel that is closed. Clean-up may be late enough to meet that, and a pool of another make may
// have such a pool inside.
func (s *Source) guarded(ctx context.Context) (c redis.Conn, err error) {
	defer func() {
		if r := recover(); r != nil {
			if e, ok := r.(runtime.Error); !ok || e.Error() != "send on closed channel" {
				panic(r)
			}
			c, err = nil, errClosedPool
		}
	}()
	return s.checkout(ctx)
}

var errClosedPool = errors.New("get on closed pool")

// Fresh is Get that returns a connection that was not used before, where the Source can dial: those that the pool keeps
// may all be broken.
func (s *Source) Fresh(ctx context.Context) (redis.Conn, error) {
	if s.dial == nil {
		return s.Get(ctx)
	}
	return s.Dial(ctx)
}

// Dial makes a connection that does not count against the limit of the pool. It returns when ctx ends, at the latest, and
// leaves a dial behind that does not.
func (s *Source) Dial(ctx context.Context) (redis.Conn, error) { return s.bounded(ctx, s.dial) }

// Listen is Dial for a subscription.
func (s *Source) Listen(ctx context.Context) (redis.Conn, error) { return s.bounded(ctx, s.listen) }

func (s *Source) bounded(ctx context.Context, dial dialling) (redis.Conn, error) {
	if dial == nil {
		return nil, errNoDial
	}
	c, err := s.behind.Dial(ctx, dial)
	if err != nil {
		return nil, Plain(err)
	}
	return c, nil
}
