package redistest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// A Monitor hears every command that a real server executes from now on, also those in scripts.
type Monitor struct {
	t      testing.TB
	server *Server

	mu    sync.Mutex
	lines []string
	marks int
}

// Monitor listens to the commands of s until the end of the test. It skips the test with miniredis.
func (s *Server) Monitor() *Monitor {
	s.t.Helper()
	if !s.IsReal() {
		s.t.Skip("miniredis has no MONITOR" + onlyReal)
	}
	c, err := redis.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := c.Do("MONITOR"); err != nil {
		s.t.Fatal(err)
	}
	m := &Monitor{t: s.t, server: s}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			line, err := redis.String(c.Receive())
			if err != nil {
				return
			}
			m.mu.Lock()
			m.lines = append(m.lines, line)
			m.mu.Unlock()
		}
	}()
	s.t.Cleanup(func() {
		c.Close()
		<-over
	})
	return m
}

// Lines returns what the server has executed so far, the oldest first.
func (m *Monitor) Lines() []string {
	m.t.Helper()
	m.mu.Lock()
	m.marks++
	mark := fmt.Sprintf("mark %d", m.marks)
	m.mu.Unlock()
	m.server.Do("ECHO", mark)
	var lines []string
	Wait(m.t, "the mark in the output of MONITOR", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		lines = append([]string(nil), m.lines...)
		return slices.ContainsFunc(lines, func(line string) bool { return strings.HasSuffix(line, `"`+mark+`"`) })
	})
	return lines
}

// Executed returns those Lines that call command, in upper or lower case, with key as the first argument, from a client or a
// script.
func (m *Monitor) Executed(command, key string) []string {
	m.t.Helper()
	call := regexp.MustCompile(`(?i)\] "` + regexp.QuoteMeta(command) + `" "` + regexp.QuoteMeta(key) + `"`)
	var lines []string
	for _, line := range m.Lines() {
		if call.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Requests returns how many commands about key clients have sent, not counting what scripts call.
func (m *Monitor) Requests(key string) int {
	m.t.Helper()
	n := 0
	for _, line := range m.Lines() {
		if strings.Contains(line, `"`+key+`"`) && !strings.Contains(line, " lua] ") {
			n++
		}
	}
	return n
}
