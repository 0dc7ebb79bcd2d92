package peers

import (
	"context"
	"io"
	"math"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
)

// By default redsync gives up after 32 tries, 5 s or so; the others wait for ever.
var patient = redsync.WithTries(math.MaxInt)

var eager = redsync.WithRetryDelay(Eager)

type redsyncLocker struct {
	*redsync.Redsync
	opts   []redsync.Option
	cancel bool
	io.Closer
}

type driver func(Env) (redsyncredis.Pool, io.Closer)

func overRedigo(e Env) (redsyncredis.Pool, io.Closer) {
	pool := e.pool()
	return redsyncredigo.NewPool(pool), pool
}

func overGoRedis(e Env) (redsyncredis.Pool, io.Closer) {
	client := e.goRedis()
	return redsyncgoredis.NewPool(client), client
}

func openRedsync(over driver, opts ...redsync.Option) func(Env) (Locker, error) {
	return func(e Env) (Locker, error) {
		pool, closer := over(e)
		all := append([]redsync.Option{redsync.WithExpiry(e.TTL), patient}, opts...)
		return &redsyncLocker{redsync.New(pool), all, e.Cancel, closer}, nil
	}
}

func (l *redsyncLocker) Slot(key string) Slot {
	return redsyncSlot{l.NewMutex(key, l.opts...), l.cancel}
}

type redsyncSlot struct {
	m      *redsync.Mutex
	cancel bool
}

func (s redsyncSlot) Lock(ctx context.Context) error {
	if s.cancel {
		return s.m.LockContext(ctx)
	}
	return s.m.Lock()
}

func (s redsyncSlot) Unlock() error {
	ok, err := s.m.Unlock()
	if err == nil && !ok {
		err = errNotHeld
	}
	return err
}
