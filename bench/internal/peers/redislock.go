package peers

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// goRedis returns the client that redislock gets, and redsync in one of its rows.
func (e Env) goRedis() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: e.Addr, Dialer: e.Requests.Dial, PoolSize: Connections,
		PoolTimeout: time.Hour, // it would else fail where the others wait for a connection
	})
}

type redislockLocker struct {
	*redis.Client
	locks *redislock.Client
	ttl   time.Duration
}

func openRedislock(e Env) (Locker, error) {
	client := e.goRedis()
	return &redislockLocker{client, redislock.New(client), e.TTL}, nil
}

func (l *redislockLocker) Slot(key string) Slot { return &redislockSlot{locker: l, key: key} }

type redislockSlot struct {
	locker *redislockLocker
	key    string
	lock   *redislock.Lock
}

func (s *redislockSlot) Lock(ctx context.Context) (err error) {
	s.lock, err = s.locker.locks.Obtain(ctx, s.key, s.locker.ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(Eager)})
	return err
}

func (s *redislockSlot) Unlock() error { return s.lock.Release(context.Background()) }
