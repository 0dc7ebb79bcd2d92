package redistest

import (
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Replicas starts a real primary with n replicas that are in step with it. It skips the test where no real server is
// installed.
func Replicas(t testing.TB, n int) (primary *Server, replicas []*Server) {
	t.Helper()
	primary = Real(t, Replicating...)
	host, port, _ := net.SplitHostPort(primary.addr)
	for range n {
		replicas = append(replicas, Real(t, slices.Concat(Replicating, []string{"--replicaof", host, port})...))
	}
	Wait(t, "the replicas are in step with their primary", func() bool { return primary.Online() == n })
	return primary, replicas
}

// Replicating are the settings with which replicas are in step after a second. By default a primary waits 5 s for more
// replicas, and sends them a PING every 10 s.
var Replicating = []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}

// Role returns the server's own view of its role: master, slave or sentinel; or "" if it does not answer.
func (s *Server) Role() string {
	if role := s.role(); len(role) > 0 {
		word, _ := redis.String(role[0], nil)
		return word
	}
	return ""
}

// CheckRole is a TestOnBorrow of pools that follow a primary: it refuses the connections to any other server.
func CheckRole(c redis.Conn, _ time.Time) error {
	role, err := redis.Values(c.Do("ROLE"))
	if err != nil {
		return err
	}
	if word, _ := redis.String(role[0], nil); word != "master" {
		return errors.New("the server is no primary (any more)")
	}
	return nil
}

// Online returns how many replicas have acknowledged something that the server wrote: their first synchronisation is over.
func (s *Server) Online() int {
	role := s.role()
	if len(role) < 3 {
		return 0
	}
	online := 0
	replicas, _ := redis.Values(role[2], nil)
	for _, r := range replicas {
		if r, _ := redis.Strings(r, nil); len(r) == 3 && r[2] != "0" {
			online++
		}
	}
	return online
}

func (s *Server) role() []any {
	role, _ := redis.Values(s.ask("ROLE"))
	return role
}

// askTimeout is how long to wait for a server that may be dead or paused.
const askTimeout = time.Second

// ask is Do for a server that may be dead or paused.
func (s *Server) ask(command string, args ...any) (any, error) {
	c, err := redis.Dial("tcp", s.addr, redis.DialConnectTimeout(askTimeout), redis.DialReadTimeout(askTimeout))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(command, args...)
}
