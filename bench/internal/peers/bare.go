package peers

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
)

// Bare is what a program does that has a pool of redigo and no library.
type bare struct {
	pool *redis.Pool
	ttl  time.Duration
}

func openBare(e Env) (Locker, error) { return &bare{e.pool(), e.TTL}, nil }

func (b *bare) Slot(key string) Slot { return &bareSlot{bare: b, key: key} }

func (b *bare) Close() error { return b.pool.Close() }

type bareSlot struct {
	*bare
	key, token string
}

var (
	compareAndDelete = redis.NewScript(1, `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
	errNotHeld       = errors.New("the lock was not held any more")
)

func (s *bareSlot) Lock(ctx context.Context) error {
	s.token = uuid.NewString()
	for {
		ok, err := s.try()
		if ok || err != nil {
			return err
		}
		timer := time.NewTimer(Eager)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func (s *bareSlot) try() (bool, error) {
	c := s.pool.Get()
	defer c.Close()
	_, err := redis.String(c.Do("SET", s.key, s.token, "NX", "PX", s.ttl.Milliseconds()))
	if errors.Is(err, redis.ErrNil) {
		return false, nil
	}
	return err == nil, err
}

func (s *bareSlot) Unlock() error {
	c := s.pool.Get()
	defer c.Close()
	n, err := redis.Int(compareAndDelete.Do(c, s.key, s.token))
	if err == nil && n == 0 {
		err = errNotHeld
	}
	return err
}
