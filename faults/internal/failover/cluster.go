package failover

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mna/redisc"

	"github.com/redimutex/redimutex/internal/redistest"
)

// startCluster starts three primaries with a replica each. Machines 0 to 2 have the primaries, and machine i+3 has the replica
// of the primary on machine i.
func startCluster(t testing.TB, lag delay) *group {
	w := newWires(t, lag)
	g := &group{kind: "Cluster", lag: lag, wires: w}
	buses := make([]string, 6)
	for i := range buses {
		addr, bus := w.listen(i, true), w.listen(i, false)
		buses[i] = bus
		_, port := hostPort(addr)
		host, announced := hostPort(bus)
		s := redistest.Real(t, slices.Concat(redistest.SourceAddr(serverIP(i)), []string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--cluster-require-full-coverage", "no",
			"--cluster-replica-validity-factor", "0",
			"--cluster-announce-ip", host, "--cluster-announce-port", port, "--cluster-announce-bus-port", announced,
		}, redistest.Replicating)...)
		w.connect(addr, s.Addr())
		_, port = hostPort(s.Addr())
		n, _ := strconv.Atoi(port)
		w.connect(bus, net.JoinHostPort(host, strconv.Itoa(n+10000)))
		g.servers, g.addrs = append(g.servers, s), append(g.addrs, addr)
	}
	g.doors = g.addrs
	redistest.FormCluster(t, g.servers, func(i int) []any {
		host, port := hostPort(g.addrs[i])
		_, bus := hostPort(buses[i])
		return []any{host, port, bus}
	})
	return g
}

// aim makes a primary the victim, and in a Cluster finds a tag for keys of that primary.
func (g *group) aim(victim int, seed uint64) {
	g.victim = victim
	if g.kind == "Sentinel" {
		return
	}
	for i := 0; ; i++ {
		g.tag = fmt.Sprintf("k%d-%d", seed%1000, i)
		if redistest.Home(redisc.Slot(g.tag)) == victim {
			break
		}
	}
	g.primary = func() int {
		replica := victim + 3
		if strings.HasPrefix(g.servers[replica].Role(), "master") {
			return replica
		}
		if g.servers[victim].Role() == "master" {
			return victim
		}
		return noMachine
	}
}
