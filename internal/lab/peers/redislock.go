package peers

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
)

// far is a deadline that is never reached. Without a deadline, redislock gives up after a TTL.
const far = time.Hour

type redislockLibrary struct {
	goredis.UniversalClient
	locks *redislock.Client
	ttl   time.Duration
}

// Redislock locks over a client of go-redis. Close closes the client too.
func Redislock(client goredis.UniversalClient, ttl time.Duration) Library {
	return &redislockLibrary{client, redislock.New(client), ttl}
}

func (l *redislockLibrary) Slot(key string) Slot { return &redislockSlot{library: l, key: key} }

// A redislockSlot knows its validity only from round trips. Until is the most generous reading: a TTL after the call, although
// the call may have waited for the lock since.
type redislockSlot struct {
	silent
	library *redislockLibrary
	key     string
	lock    *redislock.Lock
	ends    time.Time
}

func (s *redislockSlot) Lock(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, far)
		defer cancel()
	}
	return s.obtain(ctx, &redislock.Options{RetryStrategy: redislock.LinearBackoff(Eager)})
}

func (s *redislockSlot) TryLock(ctx context.Context) error { return s.obtain(ctx, nil) }

func (s *redislockSlot) obtain(ctx context.Context, o *redislock.Options) (err error) {
	asked := time.Now()
	s.lock, err = s.library.locks.Obtain(ctx, s.key, s.library.ttl, o)
	s.ends = asked.Add(s.library.ttl)
	return err
}

func (s *redislockSlot) Extend(ctx context.Context, ttl time.Duration) error {
	asked := time.Now()
	err := s.lock.Refresh(ctx, ttl, nil)
	if err == nil {
		s.ends = asked.Add(ttl)
	}
	return err
}

func (s *redislockSlot) Unlock(ctx context.Context) error { return s.lock.Release(ctx) }

func (s *redislockSlot) Token() string    { return s.lock.Token() }
func (s *redislockSlot) Until() time.Time { return s.ends }

func (s *redislockSlot) Valid() bool {
	left, err := s.lock.TTL(context.Background())
	return err == nil && left > 0
}
