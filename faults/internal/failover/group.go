package failover

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/FZambia/sentinel"
	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A group is servers of which one is the primary of our keys, and is replaced when it fails. Machine i
// has server i.
type group struct {
	kind    string // Sentinel or Cluster
	wires   *wires
	servers []*redistest.Server
	addrs   []string // where the rest of the world finds the servers
	doors   []string // where to ask for the primary: the Sentinels, or the nodes
	victim  int      // the primary that is about to fail
	tag     string   // with this in braces a key belongs to the victim
	primary func() int
}

const groupName = "main"

// replicating lets replicas be in step soon.
var replicating = []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}

// startSentinel starts a primary with two replicas, and three Sentinels.
func startSentinel(t testing.TB, lag delay) *group {
	w := newWires(t, lag)
	g := &group{kind: "Sentinel", wires: w, tag: "k"}
	for i := range 3 {
		addr := w.listen(i, true)
		host, port := hostPort(addr)
		args := slices.Concat(redistest.SourceAddr(serverIP(i)), []string{"--replica-announce-ip", host, "--replica-announce-port", port}, replicating)
		if i > 0 {
			host, port := hostPort(g.addrs[0])
			args = append(args, "--replicaof", host, port)
		}
		s := redistest.Real(t, args...)
		w.connect(addr, s.Addr())
		g.servers, g.addrs = append(g.servers, s), append(g.addrs, addr)
	}
	redistest.Wait(t, "the replicas are in step", func() bool { return g.servers[0].Online() == 2 })
	var watchers []*redistest.Server
	for range 3 {
		s := redistest.Watch(t, groupName, g.addrs[0])
		watchers, g.doors = append(watchers, s), append(g.doors, s.Addr())
	}
	redistest.Wait(t, "the Sentinels know each other and the replicas", func() bool {
		for _, s := range watchers {
			reply, _ := redis.Values(s.Do("SENTINEL", "master", groupName), nil)
			about, _ := redis.StringMap(reply, nil)
			if about["num-other-sentinels"] != "2" || about["num-slaves"] != "2" || about["flags"] != "master" {
				return false
			}
		}
		return true
	})
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
		return nobody
	}
	return g
}

// pool returns a pool for the rest of the world, which follows the primary.
func (g *group) pool(t testing.TB) (redimutex.Pool, *redis.Pool) {
	if g.kind == "Cluster" {
		return g.clusterPool(t)
	}
	watchers := &sentinel.Sentinel{
		Addrs: slices.Clone(g.doors), MasterName: groupName, // it sorts them
		Dial: func(addr string) (redis.Conn, error) { return redis.Dial("tcp", addr, dialing()...) },
	}
	var asking sync.Mutex // Sentinel v1.1.1 sorts Addrs while another goroutine may read it
	p := &redis.Pool{
		MaxIdle: 64,
		Dial: func() (redis.Conn, error) {
			asking.Lock()
			addr, err := watchers.MasterAddr()
			asking.Unlock()
			if err != nil {
				return nil, err
			}
			c, err := redis.Dial("tcp", addr, dialing()...)
			if err != nil {
				return nil, err
			}
			if !sentinel.TestRole(c, "master") {
				c.Close()
				return nil, errors.New("the server is no primary (any more)")
			}
			return c, nil
		},
	}
	t.Cleanup(func() { p.Close() })
	return p, p
}

func (g *group) clusterPool(t testing.TB) (redimutex.Pool, *redis.Pool) {
	c := &redisc.Cluster{
		StartupNodes: g.addrs, DialOptions: dialing(),
		CreatePool: func(addr string, opts ...redis.DialOption) (*redis.Pool, error) {
			return &redis.Pool{MaxIdle: 64, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr, opts...) }}, nil
		},
	}
	// A primary that hangs says nothing, not even that it is one no more.
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			_ = c.Refresh()
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-over
		c.Close()
	})
	// A library that wants a pool of redigo gets connections of the cluster from this.
	plain := &redis.Pool{Dial: func() (redis.Conn, error) { c := c.Get(); return c, c.Err() }}
	t.Cleanup(func() { plain.Close() })
	return c, plain
}

// besides returns a pool for a client on the machine of the victim, which knows of no other server.
func (g *group) besides(t testing.TB) *redis.Pool {
	victim := g.victim
	d := dialFrom(victim)
	p := &redis.Pool{MaxIdle: 64, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", g.addrs[victim], append(dialing(), redis.DialNetDial(d.Dial))...)
	}}
	t.Cleanup(func() { p.Close() })
	return p
}

func dialFrom(machine int) *net.Dialer {
	return &net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(clientIP(machine))}}
}

// patience is what everybody has for a server that doesn't answer.
const patience = 500 * time.Millisecond

func dialing() []redis.DialOption {
	return []redis.DialOption{
		redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience),
	}
}

// has returns the value of each key on a server, asked directly.
func (g *group) has(server int, keys []string) (map[string]string, error) {
	c, err := redis.Dial("tcp", g.servers[server].Addr(), redis.DialReadTimeout(20*time.Second))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	values := make(map[string]string, len(keys))
	for len(keys) > 0 {
		some := keys[:min(1000, len(keys))]
		keys = keys[len(some):]
		for _, k := range some {
			if err := c.Send("GET", k); err != nil {
				return nil, err
			}
		}
		if err := c.Flush(); err != nil {
			return nil, err
		}
		for _, k := range some {
			v, err := redis.String(c.Receive())
			if err != nil && !errors.Is(err, redis.ErrNil) {
				return nil, fmt.Errorf("server %d: %w", server, err)
			}
			values[k] = v
		}
	}
	return values, nil
}
