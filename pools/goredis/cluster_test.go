package goredis_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mna/redisc"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/pools/internal/pooltest"
)

// redisc joins the host and the port of a node without brackets.
func TestANodeOfAClusterIsDialledAtItsIPv6Address(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"::1:7000": "[::1]:7000", "2001:db8::7:7000": "[2001:db8::7]:7000", "[::1]:7000": "[::1]:7000",
		"10.0.0.1:7000": "10.0.0.1:7000", "node:7000": "node:7000",
	} {
		dialled := make(chan string, 1)
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{address},
			Dialer: func(_ context.Context, _, address string) (net.Conn, error) {
				dialled <- address
				return nil, net.ErrClosed
			},
		})
		_, err := pooltest.Ask(open(t, client), "PING")
		require.Error(t, err)
		assert.Equal(t, want, <-dialled)
	}
}

func TestALockWorksOverTheClusterOfAClient(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ChannelRules)
	c := redistest.StartCluster(t)
	for _, n := range c.Nodes {
		pooltest.AddUser(n)
		n.Do("ACL", "SETUSER", "default", "resetchannels", "-@all", "+@connection", "+cluster", "+replconf", "+psync", "+ping", "+publish", "+info", "+role", "+acl", "+client")
	}
	var asked atomic.Int32
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.Addrs()[:2], ClientName: "us", PoolSize: 3, PoolTimeout: time.Second,
		CredentialsProvider: func() (string, string) { asked.Add(1); return "locks", pooltest.Secret },
	})
	pool := open(t, client)
	cluster := pool.(*redisc.Cluster)
	assert.Equal(t, time.Second, cluster.PoolWaitTime)
	for i := range 6 {
		pooltest.Lock(t, pool, fmt.Sprint("k", i), redimutex.WithFencing())
	}
	pooltest.WaitInLine(t, pool, c)
	about, err := pooltest.Ask(pool, "CLIENT", "INFO")
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

	wrong := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()[:1], Username: "locks", Password: "x" + pooltest.Secret})
	err = redimutex.New(open(t, wrong), "k").TryLockContext(t.Context())
	require.ErrorContains(t, err, "WRONGPASS")
	assert.NotContains(t, err.Error(), pooltest.Secret)
}
