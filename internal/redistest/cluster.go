package redistest

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// A Cluster is a Redis Cluster of three primaries with a replica each. A replica becomes the primary when its primary has not
// answered for two seconds.
type Cluster struct {
	t     testing.TB
	Nodes []*Server // six; at first Nodes[0..2] are the primaries, and Nodes[i+3] is the replica of Nodes[i]
	ids   []string
}

const slots = 16384

// StartCluster starts a Cluster. It skips the test where no real server is installed.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	Differs(t, "is no cluster")
	nodes := make([]*Server, 6)
	for i := range nodes {
		nodes[i] = startNode(t)
	}
	return FormCluster(t, nodes, func(i int) []any {
		host, port, _ := net.SplitHostPort(nodes[i].addr)
		return []any{host, port}
	})
}

// FormCluster makes a Cluster of six nodes that know nothing of each other. meet returns the arguments of the CLUSTER MEET by
// which the first node finds another one.
func FormCluster(t testing.TB, nodes []*Server, meet func(node int) []any) *Cluster {
	t.Helper()
	c := &Cluster{t: t, Nodes: nodes}
	for i, n := range nodes {
		id, err := redis.String(n.Do("CLUSTER", "MYID"), nil)
		if err != nil {
			t.Fatal(err)
		}
		c.ids = append(c.ids, id)
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1) // all different, or the nodes would have to settle that first
		if i > 0 {
			nodes[0].Do("CLUSTER", append([]any{"MEET"}, meet(i)...)...)
		}
	}
	for i, n := range nodes[:3] {
		n.addSlots(i*slots/3, (i+1)*slots/3)
	}
	Wait(t, "the nodes know each other", func() bool {
		return !slices.ContainsFunc(nodes, func(n *Server) bool { return n.clusterInfo("cluster_known_nodes") != "6" })
	})
	for i, n := range nodes[3:] {
		n.Do("CLUSTER", "REPLICATE", c.ids[i])
	}
	Wait(t, "the cluster is complete", func() bool {
		for i, n := range nodes {
			if n.clusterInfo("cluster_state") != "ok" || i < 3 && n.Online() != 1 || i >= 3 && n.Role() != "slave" {
				return false
			}
		}
		return c.agreed()
	})
	return c
}

// Home returns which of the three primaries a slot belongs to at first.
func Home(slot int) (node int) {
	for slot >= (node+1)*slots/3 {
		node++
	}
	return node
}

// agreed reports whether every node knows the replica of each primary. Without that a replica is not elected.
func (c *Cluster) agreed() bool {
	for _, n := range c.Nodes {
		table, _ := redis.String(n.Do("CLUSTER", "NODES"), nil)
		if strings.Count(table, "slave ") != 3 || strings.Contains(table, "fail") || strings.Contains(table, "handshake") {
			return false
		}
	}
	return true
}

// startNode starts a node.
func startNode(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, build: Builds()[0], dir: t.TempDir(), args: append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no",
		"--cluster-replica-validity-factor", "0",
	}, Replicating...)}
	s.launch(true)
	return s
}

// ServeAlone makes a node serve all slots, and waits until it does.
func (s *Server) ServeAlone() {
	s.t.Helper()
	s.addSlots(0, slots)
	Wait(s.t, "the cluster of one is ready", func() bool { return s.clusterInfo("cluster_state") == "ok" })
}

// addSlots assigns the slots from first up to, but not including, end to the node.
func (s *Server) addSlots(first, end int) {
	args := []any{"ADDSLOTS"} // ADDSLOTSRANGE came with 7.0
	for slot := first; slot < end; slot++ {
		args = append(args, slot)
	}
	s.Do("CLUSTER", args...)
}

func (s *Server) clusterInfo(field string) string {
	info, _ := redis.String(s.Do("CLUSTER", "INFO"), nil)
	return fieldOf(info, field)
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		addrs[i] = n.addr
	}
	return addrs
}

// Slot returns the slot of key, as the servers compute it.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()
	for _, n := range c.Nodes {
		if slot, err := redis.Int(n.ask("CLUSTER", "KEYSLOT", key)); err == nil {
			return slot
		}
	}
	c.t.Fatal("no node answers")
	return 0
}

// Owner returns the index of the node that serves the slot of key and knows it, or -1.
func (c *Cluster) Owner(key string) int {
	c.t.Helper()
	slot := c.Slot(key)
	for i, n := range c.Nodes {
		if n.serves(slot) {
			return i
		}
	}
	return -1
}

// serves reports whether the node considers itself the primary of slot.
func (s *Server) serves(slot int) bool {
	table, _ := redis.String(s.ask("CLUSTER", "NODES"))
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.Contains(fields[2], "myself") || !strings.Contains(fields[2], "master") {
			continue
		}
		for _, r := range fields[8:] {
			first, last, ok := strings.Cut(r, "-")
			if !ok {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err1 == nil && err2 == nil && from <= slot && slot <= to {
				return true
			}
		}
	}
	return false
}

// Agree waits until every running node knows who serves the slot of key. Before Redis 7 that takes a second after a move.
func (c *Cluster) Agree(key string) {
	c.t.Helper()
	Wait(c.t, "all nodes know who serves "+key, func() bool {
		owner := c.Owner(key)
		for i, n := range c.Nodes {
			if i == owner || n.guard == nil {
				continue
			}
			_, err := n.ask("EXISTS", key)
			if owner < 0 || err == nil || !strings.HasSuffix(err.Error(), " "+c.Nodes[owner].addr) {
				return false
			}
		}
		return true
	})
}

// Move moves the slot of key, with all that is in it, to another node, step by step as in the specification:
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/. Primaries that have no part in the move hear of
// it only from the others. midway is called when the keys have moved and the slot has not.
//
// Move begins when all nodes know of the move before. A node that takes a slot counts on from the highest epoch that it knows,
// and a node that hears of two owners of the same epoch may keep the earlier one for good.
func (c *Cluster) Move(key string, to int, midway ...func()) {
	c.t.Helper()
	c.Agree(key)
	slot, from := c.Slot(key), c.Owner(key)
	if from < 0 || from == to {
		c.t.Fatalf("slot %d of %q can't be moved from node %d to node %d", slot, key, from, to)
	}
	source, target := c.Nodes[from], c.Nodes[to]
	target.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[from])
	source.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to])
	host, port, _ := net.SplitHostPort(target.addr)
	for {
		keys, err := redis.Strings(source.Do("CLUSTER", "GETKEYSINSLOT", slot, 100), nil)
		if err != nil {
			c.t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		args := []any{host, port, "", 0, 5000, "KEYS"}
		for _, k := range keys {
			args = append(args, k)
		}
		source.Do("MIGRATE", args...) // NOKEY is no error: the keys have expired meanwhile
	}
	for _, f := range midway {
		f()
	}
	target.Do("CLUSTER", "SETSLOT", slot, "NODE", c.ids[to])
	source.Do("CLUSTER", "SETSLOT", slot, "NODE", c.ids[to])
	Wait(c.t, fmt.Sprintf("node %d serves slot %d", to, slot), func() bool { return c.Owner(key) == to })
}

// Remove takes a node and its replica out of the cluster, as redis-cli --cluster del-node does. Its slots are not moved.
func (c *Cluster) Remove(node int) {
	c.t.Helper()
	for _, gone := range []int{node + 3, node} {
		c.Nodes[gone].Do("CLUSTER", "RESET")
		for i, n := range c.Nodes {
			if i%3 != node {
				n.Do("CLUSTER", "FORGET", c.ids[gone])
			}
		}
	}
}
