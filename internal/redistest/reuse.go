package redistest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A start of a server costs more than most tests do with it. So a server that a test leaves as it found it is
// given to the next one: no caller is connected, the settings and the users are those of the start, and no key,
// script or figure is left. Whatever was killed, restarted, left paused or made with arguments is not.
var spares struct {
	mu   sync.Mutex
	dir  string // of their folders; empty unless Main is at work
	idle []*Server
}

// mostSpares is how many servers wait for the next test at most.
const mostSpares = 16

// keepSpares lets servers be used again, until endSpares.
func keepSpares() {
	if dir, err := os.MkdirTemp("", "redistest"); err == nil && Installed() {
		spares.dir = dir
	}
}

func endSpares() {
	spares.mu.Lock()
	defer spares.mu.Unlock()
	for _, s := range spares.idle {
		s.Kill()
		s.claim.release()
	}
	if spares.dir != "" {
		os.RemoveAll(spares.dir)
	}
	spares.idle, spares.dir = nil, ""
}

// folder returns a new folder for a server.
func folder(t testing.TB) string {
	if spares.dir == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(spares.dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// spare returns a server that another test has left, or nil.
func spare(t testing.TB) *Server {
	spares.mu.Lock()
	defer spares.mu.Unlock()
	n := len(spares.idle)
	if n == 0 {
		return nil
	}
	s := spares.idle[n-1]
	spares.idle = spares.idle[:n-1]
	s.t = t
	t.Cleanup(s.retire)
	return s
}

// retire ends the server, unless another test can have it.
func (s *Server) retire() {
	s.line.hangUp()
	if s.settings != "" && !s.t.Failed() && s.clean() == nil {
		spares.mu.Lock()
		defer spares.mu.Unlock()
		if len(spares.idle) < mostSpares && spares.dir != "" {
			next := &Server{build: s.build, addr: s.addr, claim: s.claim, dir: s.dir, guard: s.guard, leash: s.leash, pid: s.pid, settings: s.settings}
			spares.idle = append(spares.idle, next)
			s.guard = nil // the process that keeps the old one can do no harm with it
			return
		}
	}
	s.Kill()
	s.claim.release()
	os.RemoveAll(s.dir)
}

// clean makes the server as it was at the start. It fails if it can't be sure of that.
func (s *Server) clean() error {
	if s.guard == nil || s.paused.Load() {
		return errors.New("it does not run")
	}
	c, err := redis.Dial("tcp", s.addr, redis.DialConnectTimeout(askTimeout), redis.DialReadTimeout(askTimeout))
	if err != nil {
		return err
	}
	defer c.Close()
	for try := 0; ; try++ { // the process that has just hung up is seen for a moment
		clients, err := redis.String(c.Do("CLIENT", "LIST"))
		if err != nil {
			return err
		}
		if strings.Count(clients, "\n") == 1 {
			break
		}
		if try == 20 {
			return errors.New("a client is connected")
		}
		time.Sleep(2 * time.Millisecond)
	}
	role, err := redis.Values(c.Do("ROLE"))
	if err != nil || fmt.Sprintf("%s", role[0]) != "master" || fmt.Sprint(role[2]) != "[]" {
		return fmt.Errorf("its role is %s: %w", role, err)
	}
	if now := settings(c); now != s.settings {
		return errors.New("its settings have changed")
	}
	for _, command := range [][]any{{"FLUSHALL"}, {"SCRIPT", "FLUSH"}, {"ACL", "LOG", "RESET"}, {"CONFIG", "RESETSTAT"}} {
		if _, err := c.Do(command[0].(string), command[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// remember takes down the settings of a server that has just been started. Another test may have it later.
func (s *Server) remember() {
	c, err := redis.Dial("tcp", s.addr)
	if err != nil {
		return
	}
	defer c.Close()
	s.settings = settings(c)
	c.Do("CONFIG", "RESETSTAT") //nolint:errcheck // as it is when it is used again
}

// settings returns what can be set on a server while it runs, or "" if it does not tell.
func settings(c redis.Conn) string {
	all, err := redis.StringMap(c.Do("CONFIG", "GET", "*"))
	users, failed := redis.Strings(c.Do("ACL", "LIST"))
	if err != nil || failed != nil {
		return ""
	}
	return fmt.Sprint(all, users) // a map is printed in the order of its keys
}
