package redistest

import (
	"errors"
	"regexp"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A line is a connection to the server that is kept for Do, so that a caller that polls need not dial each time.
type line struct {
	mu   sync.Mutex
	conn redis.Conn // nil while it is in use, and before the first use
}

var unknown = regexp.MustCompile("unknown (sub)?command|is not supported") // the words of miniredis

// Do runs a command on a connection that no other caller uses, and fails the test if that fails.
func (s *Server) Do(command string, args ...any) any {
	s.t.Helper()
	reply, err := s.Try(command, args...)
	switch {
	case err != nil && s.mini != nil && unknown.MatchString(err.Error()):
		s.t.Skipf("miniredis has no %s: %v%s", command, err, onlyReal)
	case err != nil:
		s.t.Fatalf("%s: %v", command, err)
	}
	return reply
}

// Try runs a command as Do does, and returns the error.
func (s *Server) Try(command string, args ...any) (any, error) {
	if c := s.line.take(); c != nil {
		reply, err := c.Do(command, args...)
		var refused redis.Error
		if err == nil || errors.As(err, &refused) {
			s.line.put(c)
			return reply, err
		}
		c.Close() // the server was restarted, or has killed the connection
	}
	c, err := redis.Dial("tcp", s.addr, redis.DialReadTimeout(30*time.Second)) // DEBUG takes its time
	if err != nil {
		return nil, err
	}
	reply, err := c.Do(command, args...)
	s.line.put(c)
	return reply, err
}

func (l *line) take() redis.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.conn
	l.conn = nil
	return c
}

// put keeps c for the next Do, unless there is one already.
func (l *line) put(c redis.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil || c.Err() != nil {
		c.Close()
		return
	}
	l.conn = c
}

// hangUp ends the connection.
func (l *line) hangUp() {
	if c := l.take(); c != nil {
		c.Close()
	}
}
