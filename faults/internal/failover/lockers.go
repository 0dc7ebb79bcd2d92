package failover

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
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
		redimutex.WithLogger(peers.Quiet),
	}, opts...)...)
	t.Cleanup(func() { client.Close() })
	return trying(peers.Redimutex(client, false))
}

func redsyncTry(pool *redis.Pool) try {
	return trying(peers.Redsync([]*redis.Pool{pool}, redsync.WithExpiry(ttl)))
}

func redislockTry(t testing.TB, g *group) try {
	if g.kind == "Cluster" {
		return redislockWith(t, goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs: g.doors, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
		}))
	}
	return redislockWith(t, goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: groupName, SentinelAddrs: g.doors, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	}))
}

func redislockBesides(t testing.TB, g *group) try {
	dialer, addr := dialFrom(g.victim), g.addrs[g.victim]
	o := peers.GoRedis(func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) })
	o.ReadTimeout, o.WriteTimeout = patience, patience
	return redislockWith(t, goredis.NewClient(o))
}

func redislockWith(t testing.TB, client goredis.UniversalClient) try {
	l := peers.Redislock(client, ttl)
	t.Cleanup(func() { l.Close() })
	return trying(l)
}

// trying takes a lock of a library, once.
func trying(l peers.Library) try {
	return func(ctx context.Context, key string) (string, int64, error) {
		s := l.Slot(key)
		if err := s.TryLock(ctx); err != nil {
			return "", 0, err
		}
		return s.Token(), s.Fence(), nil
	}
}
