package failover

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/following"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A group is a set of servers. One of them is the primary of the keys, and is replaced when it fails. Machine i has server i.
type group struct {
	kind    string // Sentinel or Cluster
	lag     delay
	wires   *wires
	servers []*redistest.Server
	addrs   []string // where all others find the servers
	doors   []string // where clients ask for the primary: the Sentinels, or the nodes
	victim  int      // the primary that is about to fail
	tag     string   // a key with this tag in braces belongs to the victim
	primary func() int
}

const groupName = "main"

// startSentinel starts a primary with two replicas, and three Sentinels.
func startSentinel(t testing.TB, lag delay) *group {
	w := newWires(t, lag)
	g := &group{kind: "Sentinel", lag: lag, wires: w, tag: "k"}
	for i := range 3 {
		addr := w.listen(i, true)
		host, port := hostPort(addr)
		args := slices.Concat(redistest.SourceAddr(serverIP(i)), []string{"--replica-announce-ip", host, "--replica-announce-port", port}, redistest.Replicating)
		if i > 0 {
			host, port := hostPort(g.addrs[0])
			args = append(args, "--replicaof", host, port)
		}
		s := redistest.Real(t, args...)
		w.connect(addr, s.Addr())
		g.servers, g.addrs = append(g.servers, s), append(g.addrs, addr)
	}
	redistest.Wait(t, "the replicas are in step", func() bool { return g.servers[0].Online() == 2 })
	watchers := redistest.WatchTogether(t, groupName, g.addrs[0])
	for _, s := range watchers {
		g.doors = append(g.doors, s.Addr())
	}
	g.primary = func() int {
		votes := make([]int, len(g.servers))
		for _, s := range watchers {
			addr, _ := redis.Strings(s.Do("SENTINEL", "get-master-addr-by-name", groupName), nil)
			for i := range g.addrs {
				if len(addr) == 2 && net.JoinHostPort(addr[0], addr[1]) == g.addrs[i] {
					votes[i]++
				}
			}
		}
		for i, n := range votes {
			if n == len(watchers) && g.servers[i].Role() == "master" {
				return i
			}
		}
		return noMachine
	}
	return g
}

// pool returns a pool that follows the primary. With beside, the pool is for a client on the machine of the victim, and knows
// no other server than the victim. The second result is for a library that wants a pool of redigo.
func (g *group) pool(t testing.TB, beside bool) (redimutex.Pool, *redis.Pool) {
	switch {
	case beside:
		addr, d := g.addrs[g.victim], dialFrom(g.victim)
		p := following.Closed(t, &redis.Pool{MaxIdle: 64, Dial: func() (redis.Conn, error) {
			return redis.Dial("tcp", addr, redis.DialNetDial(d.Dial), redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
		}})
		return p, p
	case g.kind == "Sentinel":
		p := following.Sentinel(t, g.doors, groupName)
		p.MaxConnLifetime, p.TestOnBorrow = 0, nil // the role is checked only when the pool dials: more locks in little time
		return p, p
	}
	c := following.Refreshed(t, g.doors, patience)
	return c, following.Closed(t, &redis.Pool{Dial: func() (redis.Conn, error) { c := c.Get(); return c, c.Err() }})
}

func dialFrom(machine int) *net.Dialer {
	return &net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(clientIP(machine))}}
}

// patience is how long all clients wait for a server that doesn't answer.
const patience = 500 * time.Millisecond

// has returns the value of each key on a server, asked directly.
func (g *group) has(server int, keys []string) (values []string, err error) {
	for some := range slices.Chunk(keys, 1000) {
		got, err := redis.Strings(g.servers[server].Do("MGET", redis.Args{}.AddFlat(some)...), nil)
		if err != nil {
			return nil, fmt.Errorf("server %d: %w", server, err)
		}
		values = append(values, got...)
	}
	return values, nil
}
