package peers

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
)

// bare does what a program does that has a redigo pool but no lock library.
type bare struct {
	*redis.Pool
	ttl time.Duration
}

// Bare locks by hand over a pool. Close closes the pool too.
func Bare(pool *redis.Pool, ttl time.Duration) Library { return &bare{pool, ttl} }

func (b *bare) Slot(key string) Slot { return &bareSlot{bare: b, key: key} }

type bareSlot struct {
	silent
	bare       *bare
	key, token string
	ends       time.Time
}

// CompareAndDelete releases a key by hand. Its argument is the token.
var CompareAndDelete = redis.NewScript(1, `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

var errTaken = errors.New("another holder has the lock")

func (s *bareSlot) Lock(ctx context.Context) error {
	s.token = uuid.NewString()
	for {
		err := s.set()
		if !errors.Is(err, errTaken) {
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

func (s *bareSlot) TryLock(context.Context) error {
	s.token = uuid.NewString()
	return s.set()
}

func (s *bareSlot) set() error {
	c := s.bare.Get()
	defer c.Close()
	s.ends = time.Now().Add(s.bare.ttl)
	_, err := redis.String(c.Do("SET", s.key, s.token, "NX", "PX", s.bare.ttl.Milliseconds()))
	if errors.Is(err, redis.ErrNil) {
		return errTaken
	}
	return err
}

func (s *bareSlot) Unlock(context.Context) error {
	c := s.bare.Get()
	defer c.Close()
	n, err := redis.Int(CompareAndDelete.Do(c, s.key, s.token))
	return goneUnless(n > 0, err)
}

// Extend is not supported: such programs have no extension.
func (s *bareSlot) Extend(context.Context, time.Duration) error { return errors.ErrUnsupported }

func (s *bareSlot) Token() string    { return s.token }
func (s *bareSlot) Until() time.Time { return s.ends }
func (s *bareSlot) Valid() bool      { return time.Now().Before(s.ends) }
