package conn

import (
	"context"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/punctual"
)

// Get checks a connection out of the pool, within ctx where the pool can do that. Errors are as [Plain] has them.
//
// A panic of the pool is one of them. redigo v1.9.3 panics where a pool that has its callers wait is closed and the ctx ends:
// it gives a place back to a channel that is closed. Clean-up may be late enough to meet that.
func (s *Source) Get(ctx context.Context) (redis.Conn, error) {
	c, err := s.checkOut(ctx)
	if err != nil {
		return nil, Plain(err)
	}
	return c, nil
}

func (s *Source) checkOut(ctx context.Context) (c redis.Conn, err error) {
	defer punctual.Caught(&err)
	if p, ok := s.Pool.(interface {
		GetContext(context.Context) (redis.Conn, error)
	}); ok {
		return p.GetContext(ctx)
	}
	c = s.Pool.Get()
	if err = c.Err(); err != nil {
		c.Close()
	}
	return c, err
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
