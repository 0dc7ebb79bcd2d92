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
	"github.com/redimutex/redimutex/faults/internal/following"
	"github.com/redimutex/redimutex/internal/lab/peers"
)

// ttl is far longer than a scene takes, so that a lock that is missing in the end was lost.
const ttl = 5 * time.Minute

// A try makes one try to take a lock, and returns the value of its key and the fence.
type try func(ctx context.Context, key string) (token string, fence int64, err error)

// A locker is a library, and how it is used.
type locker struct {
	name    string
	judged  bool
	ours    bool
	workers int // on no server's machine; as many are on the victim's machine
	open    func(t testing.TB, g *group, beside bool) try
}

const (
	withReplicas = evidence.Ours + " WithReplicas"
	async        = evidence.Ours + " without"
)

func lockers() []locker {
	ours := func(opts ...redimutex.Option) func(testing.TB, *group, bool) try {
		return func(t testing.TB, g *group, beside bool) try {
			pool, _ := g.pool(t, beside)
			return redimutexTry(t, pool, opts...)
		}
	}
	return []locker{
		{name: withReplicas, judged: true, ours: true, workers: 8, open: ours(redimutex.WithReplicas(1, patience))},
		{name: async, ours: true, workers: 2, open: ours()},
		{name: "redsync", workers: 2, open: func(t testing.TB, g *group, beside bool) try {
			_, pool := g.pool(t, beside)
			return trying(peers.Redsync([]*redis.Pool{pool}, redsync.WithExpiry(ttl)))
		}},
		{name: "redislock", workers: 2, open: func(t testing.TB, g *group, beside bool) try {
			return trying(following.Closed(t, peers.Redislock(goRedis(g, beside), ttl)))
		}},
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

// goRedis is the counterpart of pool for a library that uses go-redis.
func goRedis(g *group, beside bool) goredis.UniversalClient {
	switch {
	case beside:
		dialer, addr := dialFrom(g.victim), g.addrs[g.victim]
		o := peers.GoRedis(func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) })
		o.ReadTimeout, o.WriteTimeout = patience, patience
		return goredis.NewClient(o)
	case g.kind == "Sentinel":
		return goredis.NewFailoverClient(&goredis.FailoverOptions{
			MasterName: groupName, SentinelAddrs: g.doors, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
		})
	}
	return goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: g.doors, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	})
}

// trying returns a try with the locks of l.
func trying(l peers.Library) try {
	return func(ctx context.Context, key string) (string, int64, error) {
		s := l.Slot(key)
		if err := s.TryLock(ctx); err != nil {
			return "", 0, err
		}
		return s.Token(), s.Fence(), nil
	}
}
