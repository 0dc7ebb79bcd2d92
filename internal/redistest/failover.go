package redistest

import (
	"net"

	"github.com/gomodule/redigo/redis"
)

// ReplicaOf demotes s by hand: from now on it follows primary, and accepts no writes.
func (s *Server) ReplicaOf(primary *Server) {
	s.t.Helper()
	host, port, _ := net.SplitHostPort(primary.addr)
	s.Do("REPLICAOF", host, port)
}

// Promote makes a replica a primary, whatever its old primary does.
func (s *Server) Promote() {
	s.t.Helper()
	s.Do("REPLICAOF", "NO", "ONE")
}

// FailoverTo is a planned failover: s hands over to its replica, and follows it. FailoverTo returns when both servers know.
// Servers before 6.2 have no FAILOVER: there it is done by hand, without waiting for what the replica lacks.
func (s *Server) FailoverTo(replica *Server) {
	s.t.Helper()
	host, port, _ := net.SplitHostPort(replica.addr)
	c, err := redis.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Do("FAILOVER", "TO", host, port); err != nil {
		replica.Promote()
		s.ReplicaOf(replica)
	}
	Wait(s.t, "the failover", func() bool {
		return replica.Role() == "master" && s.Role() == "slave" && replica.Online() >= 1
	})
}
