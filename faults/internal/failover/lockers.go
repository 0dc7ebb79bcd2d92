package failover

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
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"

	"github.com/redis/go-redis/v9/logging"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// ttl is far longer than a scene takes, so that whatever is missing in the end was lost.
const ttl = 5 * time.Minute

// A try takes a lock once, and returns what stands in its key.
type try func(ctx context.Context, key string) (token string, fence int64, err error)

// A locker is a library, and how it is used.
type locker struct {
	name    string
	judged  bool
	workers int // for the rest of the world; as many are on the victim's machine
	ours    bool
	world   func(t testing.TB, g *group) try
	besides func(t testing.TB, g *group) try
}

const (
	withReplicas = evidence.Ours + " WithReplicas"
	async        = evidence.Ours + " without"
)

func lockers() []locker {
	ours := func(opts ...redimutex.Option) (world, besides func(testing.TB, *group) try) {
		world = func(t testing.TB, g *group) try {
			pool, _ := g.pool(t)
			return redimutexTry(t, pool, opts...)
		}
		besides = func(t testing.TB, g *group) try { return redimutexTry(t, g.besides(t), opts...) }
		return world, besides
	}
	safe := locker{name: withReplicas, judged: true, ours: true, workers: 8}
	safe.world, safe.besides = ours(redimutex.WithReplicas(1, patience))
	fast := locker{name: async, ours: true, workers: 2}
	fast.world, fast.besides = ours()
	return []locker{
		safe,
		fast,
		{
			name: "redsync", workers: 2,
			world: func(t testing.TB, g *group) try {
				_, pool := g.pool(t)
				return redsyncTry(pool)
			},
			besides: func(t testing.TB, g *group) try { return redsyncTry(g.besides(t)) },
		},
		{name: "redislock", workers: 2, world: redislockTry, besides: redislockBesides},
	}
}

func redimutexTry(t testing.TB, pool redimutex.Pool, opts ...redimutex.Option) try {
	client := redimutex.NewClient([]redimutex.Pool{pool}, append([]redimutex.Option{
		redimutex.WithTTL(ttl), redimutex.WithoutRenewal(), redimutex.WithNodeTimeout(patience), redimutex.WithFencing(),
		redimutex.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	}, opts...)...)
	t.Cleanup(func() { client.Close() })
	return func(ctx context.Context, key string) (string, int64, error) {
		m := client.Mutex(key)
		if err := m.TryLockContext(ctx); err != nil {
			return "", 0, err
		}
		l := m.Lease()
		return l.Token(), l.Fence(), nil
	}
}

func redsyncTry(pool *redis.Pool) try {
	rs := redsync.New(redsyncredigo.NewPool(pool))
	return func(ctx context.Context, key string) (string, int64, error) {
		m := rs.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1))
		if err := m.LockContext(ctx); err != nil {
			return "", 0, err
		}
		return m.Value(), 0, nil
	}
}

var quiet = sync.OnceFunc(logging.Disable) // go-redis writes on stderr what Sentinels say

func redislockTry(t testing.TB, g *group) try {
	quiet()
	if g.kind == "Cluster" {
		c := goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs: g.doors, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
		})
		t.Cleanup(func() { c.Close() })
		return redislockWith(c)
	}
	c := goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: groupName, SentinelAddrs: g.doors, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	})
	t.Cleanup(func() { c.Close() })
	return redislockWith(c)
}

func redislockBesides(t testing.TB, g *group) try {
	d := dialFrom(g.victim)
	c := goredis.NewClient(&goredis.Options{
		Addr: g.addrs[g.victim], ReadTimeout: patience, WriteTimeout: patience,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return d.DialContext(ctx, network, addr)
		},
	})
	t.Cleanup(func() { c.Close() })
	return redislockWith(c)
}

func redislockWith(c redislock.RedisClient) try {
	locks := redislock.New(c)
	return func(ctx context.Context, key string) (string, int64, error) {
		l, err := locks.Obtain(ctx, key, ttl, nil)
		if err != nil {
			return "", 0, err
		}
		return l.Token(), 0, nil
	}
}
