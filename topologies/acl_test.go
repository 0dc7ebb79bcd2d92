package topologies_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/topologies"
)

// restrict creates the user of docs/security.md on each server, with the permissions that are added for a topology.
func restrict(t *testing.T, servers []*redistest.Server, added string) {
	t.Helper()
	page, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "\nACL SETUSER locks reset resetchannels on >PASSWORD ")
	require.True(t, found)
	line, _, _ := strings.Cut(rest, "\n")
	require.Contains(t, string(page), "`"+added+"`", "the page names what is added")
	for _, s := range servers {
		args := []any{"SETUSER", "locks", "reset", "resetchannels", "on", ">PASSWORD"}
		for _, word := range strings.Fields(line + " " + added) {
			args = append(args, word)
		}
		s.Do("ACL", args...)
		s.Do("ACL", "LOG", "RESET")
	}
}

func login() []redis.DialOption {
	return []redis.DialOption{redis.DialUsername("locks"), redis.DialPassword("PASSWORD")}
}

// lockSome locks keys as that user, and checks that the servers refused nothing.
func lockSome(t *testing.T, pool redimutex.Pool, servers []*redistest.Server) {
	t.Helper()
	for _, key := range []string{"lock:a", "lock:b", "lock:c", "lock:d"} { // on all the primaries of a cluster
		m := locktest.Mutex(t, pool, key, redimutex.WithTTL(time.Minute))
		require.NoError(t, m.LockContext(patience(t), 0))
		require.NoError(t, m.Lease().Extend(context.Background(), time.Minute))
		require.NoError(t, m.UnlockContext(context.Background()))
	}
	for _, s := range servers {
		assert.Empty(t, s.Do("ACL", "LOG"))
	}
}

func TestClusterUserNeedsTheMapOfSlotsBesides(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ChannelRules)
	c := redistest.StartCluster(t)
	restrict(t, c.Nodes, "+cluster|slots")
	pool := topologies.ClusterPool(c.Addrs(), login()...)
	defer pool.Close()
	lockSome(t, pool, c.Nodes)
	for _, s := range c.Nodes {
		s.Do("ACL", "SETUSER", "locks", "-cluster")
	}
	assert.ErrorContains(t, pool.Refresh(), "redisc: all nodes failed")
}

func TestSentinelUserNeedsTheRoleBesides(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ChannelRules)
	g := redistest.StartSentinel(t)
	restrict(t, g.Servers, "+role")
	pool := topologies.SentinelPool(g.Addrs(), g.Name, login()...)
	defer pool.Close()
	lockSome(t, pool, g.Servers)
	for _, s := range g.Servers {
		s.Do("ACL", "SETUSER", "locks", "-role")
	}
	_, err := pool.Get().Do("PING")
	assert.Error(t, err)
}
