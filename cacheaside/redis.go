package cacheaside

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
)

// redisTimeout bounds each command of a RedisStore, also where neither the ctx nor the pool does.
const redisTimeout = 2 * time.Second

// A RedisStore is a [Store] in a Redis server: each value is a string under its key, unprefixed,
// with a TTL. In a cluster it finds the node of the key as the locks do; while the slot of a key is being
// moved, a value that is not there yet may be loaded more than once, and not be cached.
type RedisStore struct {
	pool redimutex.Pool
	ttl  time.Duration
}

var _ Store = (*RedisStore)(nil)

// NewRedisStore returns a Store whose values expire after ttl, 1 ms at least. It may use the pool of the
// locks. It panics if pool is nil or ttl makes no sense.
func NewRedisStore(pool redimutex.Pool, ttl time.Duration) *RedisStore {
	demand(pool != nil, "the pool is nil")
	demand(ttl >= time.Millisecond, "NewRedisStore: the TTL is %v, and has to be 1 ms at least", ttl)
	return &RedisStore{pool, ttl}
}

// Get implements [Store].
func (s *RedisStore) Get(ctx context.Context, key string) ([]byte, error) {
	value, err := redis.Bytes(s.do(ctx, "GET", key))
	if errors.Is(err, redis.ErrNil) || refused(err, "ASK ") {
		return nil, nil // ASK: the slot of the key is being moved, and the key is not where it was
	}
	return value, err
}

// Set implements [Store].
func (s *RedisStore) Set(ctx context.Context, key string, value []byte) error {
	_, err := s.do(ctx, "SET", key, value, "PX", s.ttl.Milliseconds())
	return err
}

// do runs a command. A node of a cluster that does not serve the key (any more) refuses with MOVED, which tells
// the pool of the one that does; so the command is repeated once, on another connection.
func (s *RedisStore) do(ctx context.Context, command string, args ...any) (any, error) {
	bounded, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	reply, err := s.once(bounded, command, args)
	if refused(err, "MOVED ") {
		reply, err = s.once(bounded, command, args)
	}
	if err != nil && ended(ctx, err) {
		return nil, context.Cause(ctx)
	}
	return reply, err
}

func (s *RedisStore) once(ctx context.Context, command string, args []any) (any, error) {
	c, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if c, ok := c.(redis.ConnWithContext); ok {
		return c.DoContext(ctx, command, args...)
	}
	deadline, _ := ctx.Deadline()
	return redis.DoWithTimeout(c, max(time.Until(deadline), time.Millisecond), command, args...)
}

// refused reports whether a server has refused a command with that word.
func refused(err error, word string) bool {
	var said redis.Error
	return errors.As(err, &said) && strings.HasPrefix(string(said), word)
}

func (s *RedisStore) conn(ctx context.Context) (redis.Conn, error) {
	if p, ok := s.pool.(interface {
		GetContext(ctx context.Context) (redis.Conn, error)
	}); ok {
		return p.GetContext(ctx)
	}
	c := s.pool.Get()
	return c, c.Err()
}
