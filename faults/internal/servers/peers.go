package servers

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	goredis "github.com/redis/go-redis/v9"
)

// quiet takes what the library logs while its servers fail, which is no news here.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// hush keeps go-redis from writing about its broken connections to standard error.
var hush = sync.OnceFunc(func() { goredis.SetLogger(silence{}) })

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// A peer is another library's lock of one key.
type peer interface {
	Lock(ctx context.Context) error // a single try
	Extend(ctx context.Context) error
	Unlock(ctx context.Context) error
}

// redsyncPeer makes redsync's locks, over redigo pools whose connections wait so long for a reply.
func redsyncPeer(t testing.TB, dialers []dialer, timeout time.Duration, opts ...redsync.Option) func(key string) peer {
	var pools []redsyncredis.Pool
	for _, d := range dialers {
		pools = append(pools, redsyncredigo.NewPool(pool(t, d, timeout)))
	}
	locks := redsync.New(pools...)
	return func(key string) peer { return redsyncLock{locks.NewMutex(key, opts...)} }
}

type redsyncLock struct{ m *redsync.Mutex }

func (l redsyncLock) Lock(ctx context.Context) error { return l.m.TryLockContext(ctx) }

func (l redsyncLock) Extend(ctx context.Context) error {
	_, err := l.m.ExtendContext(ctx)
	return err
}

func (l redsyncLock) Unlock(ctx context.Context) error {
	_, err := l.m.UnlockContext(ctx)
	return err
}

// redislockPeer makes redislock's locks, over a go-redis client that obeys the deadlines of its
// callers if punctual, which it does not do by default.
func redislockPeer(t testing.TB, d dialer, ttl time.Duration, punctual bool) func(key string) peer {
	hush()
	client := goredis.NewClient(&goredis.Options{
		Dialer:                func(ctx context.Context, _, _ string) (net.Conn, error) { return d(ctx) },
		ContextTimeoutEnabled: punctual,
	})
	t.Cleanup(func() { client.Close() })
	locks := redislock.New(client)
	return func(key string) peer { return &redislockLock{locks: locks, key: key, ttl: ttl} }
}

type redislockLock struct {
	locks *redislock.Client
	key   string
	ttl   time.Duration
	lock  *redislock.Lock
}

func (l *redislockLock) Lock(ctx context.Context) (err error) {
	l.lock, err = l.locks.Obtain(ctx, l.key, l.ttl, nil)
	return err
}

func (l *redislockLock) Extend(ctx context.Context) error { return l.lock.Refresh(ctx, l.ttl, nil) }

func (l *redislockLock) Unlock(ctx context.Context) error { return l.lock.Release(ctx) }
