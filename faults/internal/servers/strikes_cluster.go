package servers

import (
	"fmt"
	"net"
	"strings"

	"github.com/redimutex/redimutex/internal/redistest"
)

// clusterNode are the arguments of a server that is a node of a cluster.
var clusterNode = []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "5000"}

// cluster makes a cluster of one node.
func cluster(s *site) {
	s.server.ServeAlone()
}

func (s *site) clusterState(want string) {
	redistest.Wait(s.t, "the cluster is "+want, func() bool {
		return strings.Contains(fmt.Sprintf("%s", s.must("CLUSTER", "INFO")), "cluster_state:"+want)
	})
}

// reslotted gives the slots of locks to another node, or begins to. A slot with keys in it can't be
// given away before they have moved, so those of locks that are held are left out unless all.
func reslotted(how string, all bool) func(*site, []*cell) func() {
	return func(s *site, cells []*cell) func() {
		other := redistest.Real(s.t, clusterNode...)
		id := fmt.Sprintf("%s", other.Do("CLUSTER", "MYID"))
		own := fmt.Sprintf("%s", s.must("CLUSTER", "MYID"))
		host, port, _ := net.SplitHostPort(other.Addr())
		s.must("CLUSTER", "MEET", host, port)
		redistest.Wait(s.t, "the nodes know each other", func() bool {
			return strings.Contains(fmt.Sprintf("%s", s.must("CLUSTER", "NODES")), id)
		})
		slots := map[any]bool{}
		for _, x := range cells {
			if all || !x.verb.holds {
				slots[s.must("CLUSTER", "KEYSLOT", x.mutex.Key())] = true
			}
		}
		for slot := range slots {
			s.must("CLUSTER", "SETSLOT", slot, how, id)
		}
		return func() {
			for slot := range slots {
				if how == "NODE" {
					s.must("CLUSTER", "SETSLOT", slot, "NODE", own)
				} else {
					s.must("CLUSTER", "SETSLOT", slot, "STABLE")
				}
			}
			s.clusterState("ok")
		}
	}
}
