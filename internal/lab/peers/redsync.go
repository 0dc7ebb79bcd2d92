package peers

import (
	"context"
	"io"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
)

// Patient makes redsync try without end. By default it gives up after 32 tries, about 5 s.
var Patient = redsync.WithTries(math.MaxInt)

type redsyncLibrary struct {
	closing
	locks *redsync.Redsync
	opts  []redsync.Option
}

// Redsync locks over redigo pools. Close closes them too.
func Redsync(pools []*redis.Pool, opts ...redsync.Option) Library {
	var all []redsyncredis.Pool
	var closers closing
	for _, p := range pools {
		all, closers = append(all, redigo.NewPool(p)), append(closers, p)
	}
	return RedsyncOver(all, closers, opts...)
}

// RedsyncOver is Redsync over any pools of redsync's own kind.
func RedsyncOver(pools []redsyncredis.Pool, closers []io.Closer, opts ...redsync.Option) Library {
	return &redsyncLibrary{closers, redsync.New(pools...), opts}
}

func (l *redsyncLibrary) Slot(key string) Slot {
	return redsyncSlot{m: l.locks.NewMutex(key, l.opts...)}
}

type redsyncSlot struct {
	silent
	m *redsync.Mutex
}

func (s redsyncSlot) Lock(ctx context.Context) error    { return s.m.LockContext(ctx) }
func (s redsyncSlot) TryLock(ctx context.Context) error { return s.m.TryLockContext(ctx) }

// Extend ignores its TTL: redsync extends by the TTL with which the mutex was made.
func (s redsyncSlot) Extend(ctx context.Context, _ time.Duration) error {
	return goneUnless(s.m.ExtendContext(ctx))
}

func (s redsyncSlot) Unlock(ctx context.Context) error { return goneUnless(s.m.UnlockContext(ctx)) }

func (s redsyncSlot) Token() string    { return s.m.Value() }
func (s redsyncSlot) Until() time.Time { return s.m.Until() }
func (s redsyncSlot) Valid() bool      { return time.Now().Before(s.m.Until()) }
