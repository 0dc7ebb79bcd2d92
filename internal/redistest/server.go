// Package redistest gives Redis servers to tests: real processes on free loopback ports if redis-server or valkey-server is
// installed, and miniredis otherwise.
package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// A Server is a Redis server that ends with the test, even if the test binary is killed.
type Server struct {
	t     testing.TB
	build Build
	addr  string
	claim *claim // of the port, as long as the server may be restarted on it
	args  []string
	dir   string

	line   line
	config string // path of a configuration file, if the server needs one

	mini *miniredis.Miniredis // nil with a real server

	guard *exec.Cmd      // a shell that kills the server when leash is closed
	leash io.WriteCloser // the test's end of the shell's standard input
	pid   int
}

// Installed reports whether there is a real server on this machine.
func Installed() bool { return len(Builds()) > 0 }

// onlyReal is why a test is skipped without a real server.
const onlyReal = ": this needs a real redis-server or valkey-server on the PATH"

// Start starts a server: a real one if one is installed, otherwise miniredis with a running clock. With miniredis, a test that
// asks for something that it lacks is skipped.
func Start(t testing.TB) *Server {
	t.Helper()
	if Installed() {
		return Real(t)
	}
	m, addr := miniredis.NewMiniRedis(), FreeAddr(t) // the address stays reserved while the server is down
	for tries := 1; ; tries++ {                      // a program that is no test may take the port before the start
		err := m.StartAddr(addr)
		if err == nil {
			break
		} else if tries == 10 {
			t.Fatal(err)
		}
		addr = FreeAddr(t)
	}
	t.Cleanup(m.Close)
	m.ClockTTL(true)
	s := &Server{t: t, addr: addr, mini: m}
	t.Cleanup(s.line.hangUp)
	return s
}

// Real starts a real server with extra arguments, such as "--maxmemory", "1mb". It skips the test where none is installed.
// Measurements, which need a real server, call it without arguments.
func Real(t testing.TB, args ...string) *Server {
	t.Helper()
	if !Installed() {
		t.Skipf("miniredis has no settings %q%s", args, onlyReal)
	}
	return Builds()[0].Start(t, args...)
}

// Start starts a server of this build with extra arguments.
func (b Build) Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, build: b, dir: t.TempDir(), args: args}
	s.launch(false)
	return s
}

// launch starts s on a port that no other test gets. For a node of a cluster it also claims the port 10,000 above.
func (s *Server) launch(node bool) {
	s.t.Helper()
	s.t.Cleanup(func() {
		s.line.hangUp()
		s.Kill()
		s.claim.release()
	})
	var err error
	for range 10 { // a program that is no test may take the port before the start
		s.claim.release()
		s.addr, s.claim = claimAddr(s.t)
		if node {
			port, _ := strconv.Atoi(s.addr[strings.LastIndex(s.addr, ":")+1:])
			bus := claimPort(port + 10000)
			s.t.Cleanup(bus.release)
			if bus == nil {
				continue
			}
		}
		if err = s.start(); err == nil {
			return
		}
	}
	s.t.Fatalf("no server came up in 10 tries: %v", err)
}

func (s *Server) start() error {
	// If the test is ended from outside, such as by ^C, a process must remain that ends the server.
	args := []string{"-c", `trap '' HUP INT QUIT TERM; "$@" >redis.log 2>&1 & echo $!; read end; kill -9 $!; wait $!`, "guard"}
	s.guard = exec.Command("sh", append(args, s.command()...)...)
	s.guard.Dir = s.dir
	out, err := s.guard.StdoutPipe()
	if err != nil {
		return err
	}
	if s.leash, err = s.guard.StdinPipe(); err != nil {
		return err
	}
	if err := s.guard.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return err
	}
	if s.pid, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		return err
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if !alive(s.pid) {
			break
		}
		if c, err := redis.Dial("tcp", s.addr, redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(time.Second)); err == nil {
			_, err := c.Do("PING")
			c.Close()
			if err == nil || strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "LOADING") {
				return nil
			}
		}
	}
	log, _ := os.ReadFile(s.dir + "/redis.log")
	s.Kill()
	return fmt.Errorf("redis-server did not come up: %s", log)
}

// command is the command line of the server.
func (s *Server) command() []string {
	_, port, _ := net.SplitHostPort(s.addr)
	c := []string{s.build.Path}
	if s.config != "" {
		c = append(c, s.config) // must be the first argument
	}
	c = append(c, "--port", port, "--bind", "127.0.0.1", "--dir", s.dir)
	if s.config == "" {
		c = append(c, "--save", "", "--appendonly", "no")
	}
	return append(c, s.args...)
}

// Addr returns host and port of the server.
func (s *Server) Addr() string { return s.addr }

// URL returns the address as a URL.
func (s *Server) URL() string { return "redis://" + s.addr }

// IsReal reports whether the server is not miniredis.
func (s *Server) IsReal() bool { return s.mini == nil }

// Dir returns the data folder of a real server.
func (s *Server) Dir() string { return s.dir }

// PID returns the process id of a real server.
func (s *Server) PID() int { return s.pid }

// Kill ends the server at once, as kill -9 does. Its port is free when it returns.
func (s *Server) Kill() {
	if s.mini != nil {
		s.mini.Close()
		return
	}
	if s.guard == nil || s.guard.Process == nil { // it did not start, such as for want of file descriptors
		return
	}
	s.leash.Close()
	s.guard.Wait() //nolint:errcheck // it reports the kill
	s.guard = nil
}

// Restart starts the server again on the same port. If the server still runs, Restart kills it first. A server without
// persistence comes back empty.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	start := s.start
	if s.mini != nil {
		s.mini.FlushAll()
		start = s.mini.Restart
	}
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		// While no server listens on the port, the system may give it to an outgoing connection of some process.
		if err = start(); err == nil {
			return
		}
	}
	s.t.Fatal(err)
}

// Pause stops the server as SIGSTOP does: connections stay open, and no command is answered. It skips the test with miniredis.
func (s *Server) Pause() {
	s.t.Helper()
	s.tell(Stop)
}

// Resume lets a paused server continue.
func (s *Server) Resume() {
	s.t.Helper()
	s.tell(Resume)
}

func (s *Server) tell(what func(pid int) error) {
	s.t.Helper()
	if s.mini != nil {
		s.t.Skip("miniredis can't be paused" + onlyReal)
	}
	if err := what(s.pid); err != nil {
		s.t.Fatal(err)
	}
}

// Pool returns a plain pool for the server, without any timeouts, like that of a program that knows nothing of locks. It is
// closed at the end of the test.
func (s *Server) Pool(opts ...redis.DialOption) *redis.Pool {
	return poolOf(s.t, s.addr, opts)
}

func poolOf(t testing.TB, addr string, opts []redis.DialOption) *redis.Pool {
	p := &redis.Pool{MaxIdle: 100, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr, opts...) }}
	t.Cleanup(func() { p.Close() })
	return p
}

// Get returns the value of a string key, or "".
func (s *Server) Get(key string) string {
	s.t.Helper()
	v, _ := s.Do("GET", key).([]byte)
	return string(v)
}

// Keys returns the names of all keys.
func (s *Server) Keys() []string {
	s.t.Helper()
	names, err := redis.Strings(s.Do("KEYS", "*"), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return names
}

// Exists reports whether key is on the server.
func (s *Server) Exists(key string) bool {
	s.t.Helper()
	return s.Do("EXISTS", key) == int64(1)
}

// PTTL returns what is left of the TTL of key. It is negative if the key has no TTL or does not exist.
func (s *Server) PTTL(key string) time.Duration {
	s.t.Helper()
	ms, _ := s.Do("PTTL", key).(int64)
	return time.Duration(ms) * time.Millisecond
}
