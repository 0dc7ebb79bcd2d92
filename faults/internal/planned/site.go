package planned

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/following"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/topologies"
)

// A site is a set of servers. One of them is the primary of the keys, and hands over as planned.
type site struct {
	pools    []kind
	replicas int // how many a primary has
	failover func(t testing.TB)
}

// A kind is a way to make pools that follow the primary, as docs/topologies.md shows them.
type kind struct {
	name string
	make func(t testing.TB) redimutex.Pool
}

// A plan is a way to hand over.
type plan struct {
	name string
	// inStep says that the primary waits until the replica has everything. Otherwise the last locks that it has granted may be
	// forgotten, unless all replicas have confirmed them.
	inStep bool
	build  func(t testing.TB) *site
}

func plans() []plan {
	return []plan{
		{"FAILOVER TO", true, func(t testing.TB) *site { return byHand(t, (*redistest.Server).FailoverTo) }},
		{"REPLICAOF by hand", false, func(t testing.TB) *site { return byHand(t, demote) }},
		{"SENTINEL FAILOVER", false, sentinels},
		{"CLUSTER FAILOVER", true, cluster},
	}
}

const groupName = "main"

// lately takes a shortcut of docs/topologies.md: p does not check the role of connections that were used in the last second.
func lately(p *redis.Pool) *redis.Pool {
	p.TestOnBorrow = func(c redis.Conn, used time.Time) error {
		if time.Since(used) < time.Second {
			return nil
		}
		return topologies.CheckRole(c, used)
	}
	return p
}

// sentinelPools returns the pools that ask Sentinels for the primary.
func sentinelPools(addrs []string) []kind {
	pool := func(t testing.TB) *redis.Pool { return following.Sentinel(t, addrs, groupName) }
	return []kind{
		{"of Sentinels", func(t testing.TB) redimutex.Pool { return pool(t) }},
		{"of Sentinels, role checked after a second", func(t testing.TB) redimutex.Pool { return lately(pool(t)) }},
	}
}

// byHand makes a primary with a replica, an address that moves with the role, and a process that knows where the primary is
// and answers as a Sentinel does.
func byHand(t testing.TB, handOver func(from, to *redistest.Server)) *site {
	primary, replicas := redistest.Replicas(t, 1)
	replica := replicas[0]
	var address atomic.Pointer[string]
	move := func(addr string) { address.Store(&addr) }
	move(primary.Addr())
	knows := redistest.NewFront(t, redistest.Real(t))
	knows.On(func([]string) redistest.Fate {
		host, port, _ := net.SplitHostPort(*address.Load())
		return redistest.Fate{Reply: "*2\r\n" + redistest.Bulk(host) + redistest.Bulk(port)}
	})
	dial := redis.DialNetDial(func(network, _ string) (net.Conn, error) { return net.Dial(network, *address.Load()) })
	pools := append(sentinelPools([]string{knows.Addr()}),
		kind{"of one address, no role check", func(t testing.TB) redimutex.Pool {
			return following.Closed(t, &redis.Pool{MaxIdle: 16, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", "primary:6379", dial) }})
		}},
		kind{"of one address, Dialer", func(t testing.TB) redimutex.Pool {
			return following.Closed(t, &redis.Pool{MaxIdle: 16, DialContext: redimutex.Dialer("tcp", "primary:6379", dial)})
		}})
	return &site{pools: pools, replicas: 1, failover: func(t testing.TB) {
		handOver(primary, replica)
		primary, replica = replica, primary
		move(primary.Addr())
		redistest.Wait(t, "the old primary follows the new one", func() bool { return replica.Role() == "slave" && primary.Online() == 1 })
	}}
}

// demote makes a failover by hand: for a moment there are two primaries.
func demote(from, to *redistest.Server) {
	to.Promote()
	from.ReplicaOf(to)
}

func sentinels(t testing.TB) *site {
	g := redistest.StartSentinel(t)
	primary := func() *redistest.Server {
		if p := g.Primary(); p != nil && p.Online() == 2 { // the others follow it
			return p
		}
		return nil
	}
	return &site{pools: sentinelPools(g.Addrs()), replicas: 2, failover: func(t testing.TB) { g.Failover(t, g.Sentinels[0], primary) }}
}

func cluster(t testing.TB) *site {
	c := redistest.StartCluster(t)
	const key = "{k}"
	pool := func(t testing.TB) redimutex.Pool { return following.Cluster(t, c.Addrs()) }
	refreshed := func(t testing.TB) redimutex.Pool { return following.Refreshed(t, c.Addrs(), time.Second) }
	owner := c.Owner(key)
	replica := owner + 3
	return &site{pools: []kind{{"of a cluster", pool}, {"of a cluster, refreshed", refreshed}}, replicas: 1, failover: func(t testing.TB) {
		redistest.Wait(t, "the replica takes over", func() bool {
			// The replica may refuse while it is not yet in step again after the last failover.
			_, err := c.Nodes[replica].Try("CLUSTER", "FAILOVER")
			for end := time.Now().Add(5 * time.Second); err == nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if c.Owner(key) == replica && c.Nodes[owner].Role() == "slave" {
					return true
				}
			}
			return false
		})
		owner, replica = replica, owner
		redistest.Wait(t, "the old primary follows the new one", func() bool { return c.Nodes[owner].Online() == 1 })
	}}
}
