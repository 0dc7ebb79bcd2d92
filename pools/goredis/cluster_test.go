package goredis_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestALockWorksOverTheClusterOfAClient(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	for _, n := range c.Nodes {
		n.Do("ACL", "SETUSER", "locks", "on", ">"+secret, "~*", "&*", "+@all")
		n.Do("ACL", "SETUSER", "default", "resetchannels", "-@all", "+@connection", "+cluster", "+replconf", "+psync", "+ping", "+publish", "+info", "+role", "+acl", "+client")
	}
	var asked atomic.Int32
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.Addrs()[:2], ClientName: "us", PoolSize: 3, PoolTimeout: time.Second,
		CredentialsProvider: func() (string, string) { asked.Add(1); return "locks", secret },
	})
	pool := open(t, client)
	cluster := pool.(*redisc.Cluster)
	assert.Equal(t, time.Second, cluster.PoolWaitTime)
	for i := range 6 {
		lock(t, pool, fmt.Sprint("k", i), redimutex.WithFencing())
	}
	waitInLine(t, pool, c)
	about, err := ask(pool, "CLIENT", "INFO")
	require.NoError(t, err)
	assert.Contains(t, about, " name=us ")
	assert.Contains(t, about, " user=locks ")
	assert.GreaterOrEqual(t, asked.Load(), int32(3))
	for _, p := range cluster.Stats() {
		assert.LessOrEqual(t, p.ActiveCount, 3)
	}
	for _, n := range c.Nodes {
		assert.Empty(t, n.Do("ACL", "LOG"), "every connection was logged in")
	}

	wrong := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()[:1], Username: "locks", Password: "x" + secret})
	err = redimutex.New(open(t, wrong), "k").TryLockContext(t.Context())
	require.ErrorContains(t, err, "WRONGPASS")
	assert.NotContains(t, err.Error(), secret)
}

// waitInLine has a caller wait for a lock: that is a subscription, over a connection that redisc dials without a pool.
func waitInLine(t testing.TB, pool redimutex.Pool, cluster *redistest.Cluster) {
	t.Helper()
	first, second := redimutex.NewClient([]redimutex.Pool{pool}), redimutex.NewClient([]redimutex.Pool{pool})
	defer first.Close()
	defer second.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	holder := first.Mutex("line", redimutex.WithQueue())
	require.NoError(t, holder.LockContext(ctx, 0))
	waiter, done := second.Mutex("line", redimutex.WithQueue()), make(chan error)
	go func() { done <- waiter.LockContext(ctx, 0) }()
	redistest.Wait(t, "the subscription", func() bool {
		for _, n := range cluster.Nodes {
			list, _ := redigo.String(n.Do("CLIENT", "LIST", "TYPE", "pubsub"), nil)
			if strings.Contains(list, " user=locks ") {
				return true
			}
		}
		return false
	})
	require.NoError(t, holder.UnlockContext(ctx))
	require.NoError(t, <-done)
	require.NoError(t, waiter.UnlockContext(ctx))
}
