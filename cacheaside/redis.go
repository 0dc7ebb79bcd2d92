package cacheaside

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/server"
)

// redisTimeout bounds each command of a RedisStore, even if neither the ctx nor the pool sets a bound.
const redisTimeout = 2 * time.Second

// A RedisStore is a [Store] in a Redis server: each value is a string under its key, unprefixed, with a TTL. In a cluster it
// finds the node of the key as the locks do. While the slot of a key is being moved, a value that has not been moved yet may
// be loaded more than once, and may not be cached.
type RedisStore struct {
	server *server.Server
	ttl    time.Duration
}

var _ Store = (*RedisStore)(nil)

// NewRedisStore returns a Store whose values expire after ttl, which must be at least 1 ms. pool may be the pool of the locks.
// It panics if pool is nil or ttl is too small.
func NewRedisStore(pool redimutex.Pool, ttl time.Duration) *RedisStore {
	demand(pool != nil, "the pool is nil")
	demand(ttl >= time.Millisecond, "NewRedisStore: the TTL is %v, and has to be 1 ms at least", ttl)
	return &RedisStore{server.New(pool), ttl}
}

// Get implements [Store].
func (s *RedisStore) Get(ctx context.Context, key string) ([]byte, error) {
	value, err := redis.Bytes(s.do(ctx, "GET", key))
	var said redis.Error
	moving := errors.As(err, &said) && strings.HasPrefix(string(said), "ASK ") // the slot is moving, and the key has moved
	if moving || errors.Is(err, redis.ErrNil) {
		return nil, nil
	}
	return value, err
}

// Set implements [Store].
func (s *RedisStore) Set(ctx context.Context, key string, value []byte) error {
	_, err := s.do(ctx, "SET", key, value, "PX", s.ttl.Milliseconds())
	return err
}

// do runs a command at the server of the key. It returns when ctx or its own timeout ends, even if the pool hangs.
func (s *RedisStore) do(ctx context.Context, command, key string, args ...any) (any, error) {
	reply, err := s.server.Session(ctx, redisTimeout, key).Do(command, append([]any{key}, args...)...)
	if err != nil && conn.Over(ctx) {
		return nil, context.Cause(ctx)
	}
	return reply, err
}
