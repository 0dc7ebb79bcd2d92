package goredis_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/pools/internal/pooltest"
)

func TestAfterAFailoverLocksAreAtTheNewPrimary(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ChannelRules)
	g := redistest.StartSentinel(t)
	for _, s := range g.Servers {
		pooltest.AddUser(s)
	}
	opt := &redis.FailoverOptions{MasterName: g.Name, SentinelAddrs: g.Addrs(), Username: "locks", Password: pooltest.Secret, DB: 3}
	pool := open(t, redis.NewFailoverClient(opt)).(*redigo.Pool)
	assert.True(t, conn.Of(pool).Punctual, "locks run on the caller's goroutine")
	pooltest.Lock(t, pool, "before", redimutex.WithQueue(), redimutex.WithReplicas(1, 5*time.Second))
	var idle []redigo.Conn // to the old primary
	for range 3 {
		idle = append(idle, pool.Get())
	}
	for _, c := range idle {
		role, err := redigo.Values(c.Do("ROLE"))
		require.NoError(t, err)
		require.Equal(t, "master", string(role[0].([]byte)))
		c.Close()
	}
	primary := g.Failover(t, g.Sentinels[0], g.Primary)
	late, began := redistest.MeasureLateness(), time.Now()
	at := primary.Pool(redigo.DialDatabase(3))
	redistest.Wait(t, "the pool writes to the new primary, also while the old one takes writes", func() bool {
		_, err := pooltest.Ask(pool, "SET", "probe", "1")
		got, _ := pooltest.Ask(at, "GET", "probe")
		return err == nil && got == "1"
	})
	assert.Less(t, time.Since(began), 5*time.Second+late.Stop(), "Sentinel takes 8 s to demote the old one")
	pooltest.Lock(t, pool, "after")
}

// go-redis keeps asking the Sentinel that answered before. Each dial has less time than go-redis needs to find out that this
// Sentinel hangs.
func TestASentinelThatHangsIsLeft(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinel(t)
	pool := open(t, redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: g.Name, SentinelAddrs: g.Addrs(), ConnMaxLifetime: time.Nanosecond,
		ReadTimeout: 200 * time.Millisecond, MaxRetries: -1,
	})).(*redigo.Pool)
	for _, s := range g.Sentinels {
		s.Pause()
		redistest.Wait(t, "a connection to the primary", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			c, err := pool.GetContext(ctx)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
		s.Resume()
	}
}

// Sentinel closes the connections of clients to the old primary. If that does not get through, the error READONLY does it.
func TestIdleConnectionsToAnOldPrimaryAreGivenUp(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL) // such servers also have HELLO, whose reply has the role
	primary, replicas := redistest.Replicas(t, 1)
	var at atomic.Pointer[redistest.Server]
	at.Store(primary)
	opt := *redis.NewFailoverClient(&redis.FailoverOptions{}).Options()
	opt.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, at.Load().Addr())
	}
	pool := single(t, &opt)
	var idle []redigo.Conn
	for range 5 {
		idle = append(idle, pool.Get())
		require.NoError(t, idle[len(idle)-1].Err())
	}
	for _, c := range idle {
		c.Close()
	}
	require.Equal(t, 5, pool.IdleCount())
	primary.FailoverTo(replicas[0])
	err := func() error { // new connections still lead to the old primary
		c := pool.Get()
		defer c.Close()
		_, err := c.Do("PING")
		return err
	}()
	if err != nil { // the idle connections were older than a second by then, so Get dialled
		require.ErrorContains(t, err, "is a replica")
	}
	at.Store(replicas[0])
	pooltest.Lock(t, pool, "after")
	assert.Less(t, pool.IdleCount(), 5, "those to the old primary that were used are gone")
	at.Store(primary)
	pool = single(t, &opt)
	_, err = pooltest.Ask(pool, "PING")
	require.ErrorContains(t, err, "is a replica")
}
