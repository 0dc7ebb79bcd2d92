package holds

import (
	"context"
	"math"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
)

// eager is the poll interval of the peers, the shortest that redislock's documentation recommends.
const eager = 16 * time.Millisecond

type redsyncLibrary struct {
	*redsync.Redsync
	pools []*redis.Pool
	ttl   time.Duration
}

func newRedsync(k kit) library {
	l := &redsyncLibrary{ttl: k.TTL}
	var pools []redsyncredis.Pool
	for _, addr := range k.Addrs {
		p := redigoPool(addr)
		l.pools = append(l.pools, p)
		pools = append(pools, redsyncredigo.NewPool(p))
	}
	l.Redsync = redsync.New(pools...)
	return l
}

// mutex is made for each hold, because one of theirs is used by one goroutine at a time.
func (l *redsyncLibrary) mutex(key string) *redsync.Mutex {
	return l.NewMutex(key, redsync.WithExpiry(l.ttl), redsync.WithTries(math.MaxInt), redsync.WithRetryDelay(eager))
}

func (l *redsyncLibrary) lock(ctx context.Context, key string) (hold, error) {
	m := l.mutex(key)
	return redsyncHold{m}, m.LockContext(ctx)
}

func (l *redsyncLibrary) try(ctx context.Context, key string) (hold, error) {
	m := l.mutex(key)
	return redsyncHold{m}, m.TryLockContext(ctx)
}

func (l *redsyncLibrary) close() {
	for _, p := range l.pools {
		p.Close()
	}
}

type redsyncHold struct{ *redsync.Mutex }

func (h redsyncHold) fence() int64          { return 0 }
func (h redsyncHold) until() time.Time      { return h.Until() }
func (h redsyncHold) valid() bool           { return time.Now().Before(h.Until()) }
func (h redsyncHold) done() <-chan struct{} { return nil }

func (h redsyncHold) extend(ctx context.Context, _ time.Duration) error {
	ok, err := h.ExtendContext(ctx)
	return goneUnless(ok, err)
}

func (h redsyncHold) unlock(ctx context.Context) error {
	ok, err := h.UnlockContext(ctx)
	return goneUnless(ok, err)
}

func goneUnless(ok bool, err error) error {
	if err == nil && !ok {
		return errGone
	}
	return err
}

// A mute logger has nothing to say of connections that we have broken ourselves.
type mute struct{}

func (mute) Printf(context.Context, string, ...any) {}

func init() { goredis.SetLogger(mute{}) }

type redislockLibrary struct {
	*goredis.Client
	locks *redislock.Client
	ttl   time.Duration
}

func newRedislock(k kit) library {
	client := goredis.NewClient(&goredis.Options{Addr: k.Addrs[0]})
	return &redislockLibrary{client, redislock.New(client), k.TTL}
}

func (l *redislockLibrary) obtain(ctx context.Context, key string, r redislock.RetryStrategy) (hold, error) {
	asked := time.Now()
	lock, err := l.locks.Obtain(ctx, key, l.ttl, &redislock.Options{RetryStrategy: r})
	return &redislockHold{lock, asked.Add(l.ttl)}, err
}

// lock has a far deadline, without which theirs would give up after a TTL.
func (l *redislockLibrary) lock(ctx context.Context, key string) (hold, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	return l.obtain(ctx, key, redislock.LinearBackoff(eager))
}

func (l *redislockLibrary) try(ctx context.Context, key string) (hold, error) {
	return l.obtain(ctx, key, redislock.NoRetry())
}

func (l *redislockLibrary) close() { l.Client.Close() }

// A redislockHold knows nothing of its validity but what a round trip tells. Until is the
// kindest reading: a TTL after the call, although it may have waited for the lock since.
type redislockHold struct {
	*redislock.Lock
	ends time.Time
}

func (h *redislockHold) fence() int64          { return 0 }
func (h *redislockHold) until() time.Time      { return h.ends }
func (h *redislockHold) done() <-chan struct{} { return nil }

func (h *redislockHold) valid() bool {
	left, err := h.TTL(context.Background())
	return err == nil && left > 0
}

func (h *redislockHold) extend(ctx context.Context, ttl time.Duration) error {
	asked := time.Now()
	err := h.Refresh(ctx, ttl, nil)
	if err == nil {
		h.ends = asked.Add(ttl)
	}
	return err
}

func (h *redislockHold) unlock(ctx context.Context) error { return h.Release(ctx) }
