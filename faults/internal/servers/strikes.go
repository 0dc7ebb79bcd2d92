package servers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/redistest"
)

// configured returns a strike that gives a setting a bad value, and a good one when it heals.
func configured(name, bad, good string) func(*site, []*cell) func() {
	return func(s *site, _ []*cell) func() {
		s.must("CONFIG", "SET", name, bad)
		return func() { s.must("CONFIG", "SET", name, good) }
	}
}

// locked makes the server ask for a password. Before Redis 6 it also asks connected clients.
func locked(s *site, cells []*cell) func() {
	heal := configured("requirepass", "a new password", "")(s, cells)
	s.must("AUTH", "a new password")
	return heal
}

// killing closes the connections of all clients after strike.
func killing(strike func(*site, []*cell) func()) func(*site, []*cell) func() {
	return func(s *site, cells []*cell) func() {
		heal := strike(s, cells)
		s.killClients()
		return heal
	}
}

func (s *site) killClients() {
	for _, kind := range []string{"normal", "pubsub"} {
		s.must("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
	}
}

// user makes a user who may do everything.
func user(s *site) { s.must("ACL", "SETUSER", "app", "on", ">old", "~*", "&*", "+@all") }

// ruled changes what the user may do, and changes it back.
func ruled(bad, good []any) func(*site, []*cell) func() {
	return func(s *site, _ []*cell) func() {
		s.must("ACL", append([]any{"SETUSER", "app"}, bad...)...)
		return func() { s.must("ACL", append([]any{"SETUSER", "app"}, good...)...) }
	}
}

// demoted makes the server the replica of a server that does not exist, so that it keeps its data.
func demoted(s *site, _ []*cell) func() {
	host, port, _ := strings.Cut(redistest.FreeAddr(s.t), ":")
	s.must("REPLICAOF", host, port)
	return func() { s.must("REPLICAOF", "NO", "ONE") }
}

// unsaved makes a snapshot fail, by a folder in the place of its file.
func unsaved(s *site, _ []*cell) func() {
	obstacle := filepath.Join(s.server.Dir(), "dump.rdb")
	if err := os.MkdirAll(filepath.Join(obstacle, "in the way"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	saved := func(status string) {
		s.must("BGSAVE")
		redistest.Wait(s.t, "a snapshot that ends with "+status, func() bool {
			info := fmt.Sprintf("%s", s.must("INFO", "persistence"))
			return strings.Contains(info, "rdb_bgsave_in_progress:0") && strings.Contains(info, "rdb_last_bgsave_status:"+status)
		})
	}
	s.must("CONFIG", "SET", "save", "3600 1000000")
	saved("err")
	return func() {
		if err := os.RemoveAll(obstacle); err != nil {
			s.t.Fatal(err)
		}
		saved("ok")
	}
}

// loading makes the server load its data again, slowly.
func loading(s *site, _ []*cell) func() {
	c := s.connect()
	s.must("DEBUG", "POPULATE", 100_000, "ballast")
	s.must("CONFIG", "SET", "key-load-delay", 100)
	s.begin(c, "DEBUG", "RELOAD")
	s.says("LOADING")
	return func() {
		s.must("CONFIG", "SET", "key-load-delay", 0)
		redistest.Wait(s.t, "the data are there again", func() bool {
			_, err := s.do("PING")
			return err == nil
		})
	}
}

// says waits until the server refuses with a word.
func (s *site) says(word string) {
	redistest.Wait(s.t, "the server says "+word, func() bool {
		_, err := s.do("PING")
		return err != nil && strings.HasPrefix(err.Error(), word)
	})
}

// busy makes the server execute a script that does not end.
func busy(s *site, _ []*cell) func() {
	s.begin(s.connect(), "EVAL", "while true do end", 0)
	s.says("BUSY")
	return func() { s.must("SCRIPT", "KILL") }
}

// wrongType puts lists in the place of all locks.
func wrongType(s *site, cells []*cell) func() {
	for _, x := range cells {
		s.must("DEL", x.mutex.Key())
		s.must("LPUSH", x.mutex.Key(), "not a lock")
	}
	return func() {
		for _, x := range cells {
			s.must("DEL", x.mutex.Key())
		}
	}
}

// elsewhere leads new connections to another server, as a change in the DNS would.
func elsewhere(args ...string) func(*site, []*cell) func() {
	return func(s *site, _ []*cell) func() {
		other := newSite(s.t, args...)
		s.lead(other.server.Addr())
		s.killClients()
		return func() {
			s.lead(s.server.Addr())
			other.killClients()
		}
	}
}

// nowhere leads new connections to an address on which no server listens.
func nowhere(s *site, _ []*cell) func() {
	s.lead(redistest.FreeAddr(s.t))
	s.killClients()
	return func() { s.lead(s.server.Addr()) }
}

// forgetful makes the server forget its scripts again and again.
func forgetful(s *site, _ []*cell) func() {
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				_, _ = s.do("SCRIPT", "FLUSH")
			}
		}
	})
	return func() {
		close(stop)
		done.Wait()
	}
}

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

// reslotted gives the slots of locks to another node, or begins to. A slot can't be given away while it has keys. So slots of
// locks that are held are left out, unless all is set.
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
