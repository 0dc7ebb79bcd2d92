package redistest

import (
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Info returns a field of a section of INFO, or "" if there is none.
func (s *Server) Info(section, field string) string {
	s.t.Helper()
	info, _ := redis.String(s.Do("INFO", section), nil)
	return fieldOf(info, field)
}

// fieldOf returns a field of the reply to INFO or to CLUSTER INFO, or "".
func fieldOf(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Calls returns how often clients and scripts have called a command, whose name is in lower case. It skips the test with
// miniredis, which does not count commands.
func (s *Server) Calls(command string) int {
	s.t.Helper()
	Differs(s.t, "does not count commands")
	calls, _, _ := strings.Cut(strings.TrimPrefix(s.Info("commandstats", "cmdstat_"+command), "calls="), ",")
	n, _ := strconv.Atoi(calls) // there is no number before the first call
	return n
}

// Subscribers returns how many connections are subscribed.
func (s *Server) Subscribers() int {
	s.t.Helper()
	list, _ := redis.String(s.Do("CLIENT", "LIST", "TYPE", "pubsub"), nil)
	return strings.Count(list, "id=")
}
