package redistest

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Sentinel is a primary with two replicas, watched by three Sentinels. They make a replica the primary when the primary has
// not answered for a second.
type Sentinel struct {
	Name      string    // of the primary, as the Sentinels know it
	Sentinels []*Server // three
	Servers   []*Server // three; at first Servers[0] is the primary
}

// StartSentinel starts all six servers. It skips the test where no real server is installed.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	primary, replicas := Replicas(t, 2)
	g := &Sentinel{Name: "main", Servers: append([]*Server{primary}, replicas...)}
	g.Sentinels = WatchTogether(t, g.Name, primary.addr)
	return g
}

// WatchTogether starts three Sentinels for the primary at addr, which has two replicas. They know each other and the replicas.
func WatchTogether(t testing.TB, name, addr string) (sentinels []*Server) {
	t.Helper()
	for range 3 {
		sentinels = append(sentinels, Watch(t, name, addr))
	}
	Wait(t, "the Sentinels know each other and the replicas", func() bool {
		for _, s := range sentinels {
			reply, _ := redis.Values(s.Do("SENTINEL", "master", name), nil)
			about, _ := redis.StringMap(reply, nil)
			if about["num-other-sentinels"] != "2" || about["num-slaves"] != "2" || about["flags"] != "master" {
				return false
			}
		}
		return true
	})
	return sentinels
}

// Watch starts a Sentinel for the primary at addr. The Sentinel writes what it learns into its configuration file.
func Watch(t testing.TB, name, addr string) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	lines := []string{
		fmt.Sprintf("sentinel monitor %s %s %s 2", name, host, port),
		"sentinel down-after-milliseconds " + name + " 1000",
		"sentinel failover-timeout " + name + " 3000",
		"sentinel parallel-syncs " + name + " 2",
	}
	s := &Server{t: t, build: Builds()[0], dir: t.TempDir(), args: []string{"--sentinel"}}
	s.config = s.dir + "/sentinel.conf"
	if err := os.WriteFile(s.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.launch(false)
	return s
}

// Addrs returns the addresses of the Sentinels.
func (g *Sentinel) Addrs() []string {
	addrs := make([]string, len(g.Sentinels))
	for i, s := range g.Sentinels {
		addrs[i] = s.addr
	}
	return addrs
}

// Primary returns the server that all Sentinels call the primary, if it agrees; or nil.
func (g *Sentinel) Primary() *Server {
	var primary *Server
	for i, s := range g.Sentinels {
		at, _ := redis.Strings(s.Do("SENTINEL", "get-master-addr-by-name", g.Name), nil)
		if len(at) != 2 {
			return nil
		}
		for _, candidate := range g.Servers {
			if candidate.addr != net.JoinHostPort(at[0], at[1]) {
				continue
			}
			if i > 0 && candidate != primary {
				return nil
			}
			primary = candidate
		}
	}
	if primary == nil || primary.Role() != "master" {
		return nil
	}
	return primary
}

// Failover orders a Sentinel to make a replica the primary, and waits until primary returns another server than before. It
// calls primary again and again, which returns nil while there is none. Sentinels that are late give a failover up, so it
// repeats the order.
func (g *Sentinel) Failover(t testing.TB, by *Server, primary func() *Server) *Server {
	t.Helper()
	var old *Server
	Wait(t, "there is a primary", func() bool {
		old = primary()
		return old != nil
	})
	const again, patience = 15 * time.Second, 2 * time.Minute
	var ordered time.Time
	for began := time.Now(); time.Since(began) < patience; time.Sleep(10 * time.Millisecond) {
		if now := primary(); now != nil && now != old {
			return now
		}
		if time.Since(ordered) > again {
			if _, err := by.Try("SENTINEL", "FAILOVER", g.Name); err == nil {
				ordered = time.Now()
			}
		}
	}
	t.Fatalf("no other primary in %v", patience)
	return nil
}
