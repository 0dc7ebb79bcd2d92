package failover

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/redimutex/redimutex/internal/redistest"
)

const slots = 16384

// startCluster starts three primaries with a replica each. Machines 0 to 2 have the primaries, and machine i+3 has the replica
// of the primary on machine i.
func startCluster(t testing.TB, lag delay) *group {
	w := newWires(t, lag)
	g := &group{kind: "Cluster", lag: lag, wires: w}
	ids, buses := make([]string, 6), make([]string, 6)
	for i := range ids {
		addr, bus := w.listen(i, true), w.listen(i, false)
		buses[i] = bus
		_, port := hostPort(addr)
		host, announced := hostPort(bus)
		s := redistest.Real(t, slices.Concat(redistest.SourceAddr(serverIP(i)), []string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--cluster-require-full-coverage", "no",
			"--cluster-replica-validity-factor", "0",
			"--cluster-announce-ip", host, "--cluster-announce-port", port, "--cluster-announce-bus-port", announced,
		}, replicating)...)
		w.connect(addr, s.Addr())
		_, port = hostPort(s.Addr())
		n, _ := strconv.Atoi(port)
		w.connect(bus, net.JoinHostPort(host, strconv.Itoa(n+10000)))
		g.servers, g.addrs = append(g.servers, s), append(g.addrs, addr)
		ids[i], _ = redis.String(s.Do("CLUSTER", "MYID"), nil)
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i > 0 {
			host, port := hostPort(g.addrs[i])
			_, bus := hostPort(buses[i])
			g.servers[0].Do("CLUSTER", "MEET", host, port, bus)
		}
	}
	g.doors = g.addrs
	for i, s := range g.servers[:3] {
		args := []any{"ADDSLOTS"}
		for slot := i * slots / 3; slot < (i+1)*slots/3; slot++ {
			args = append(args, slot)
		}
		s.Do("CLUSTER", args...)
	}
	redistest.Wait(t, "the nodes know each other", func() bool {
		for _, s := range g.servers {
			if !strings.Contains(clusterText(s, "INFO"), "cluster_known_nodes:6\r") {
				return false
			}
		}
		return true
	})
	for i, s := range g.servers[3:] {
		s.Do("CLUSTER", "REPLICATE", ids[i])
	}
	redistest.Wait(t, "the cluster is complete, and every node knows it", func() bool {
		for i, s := range g.servers {
			nodes := clusterText(s, "NODES")
			if i < 3 && s.Online() != 1 || !strings.Contains(clusterText(s, "INFO"), "cluster_state:ok") ||
				strings.Count(nodes, "slave ") != 3 || strings.Contains(nodes, "fail") || strings.Contains(nodes, "handshake") {
				return false
			}
		}
		return true
	})
	return g
}

func clusterText(s *redistest.Server, what string) string {
	text, _ := redis.String(s.Do("CLUSTER", what), nil)
	return text
}

// aim makes a primary the victim, and in a Cluster finds a tag for keys of that primary.
func (g *group) aim(victim int, seed uint64) {
	g.victim = victim
	if g.kind == "Sentinel" {
		return
	}
	for i := 0; ; i++ {
		g.tag = fmt.Sprintf("k%d-%d", seed%1000, i)
		if slot := redisc.Slot(g.tag); slot >= victim*slots/3 && slot < (victim+1)*slots/3 {
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
