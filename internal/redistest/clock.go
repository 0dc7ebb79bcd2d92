package redistest

import (
	_ "embed"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Clock is the wall clock of one server, which a test can set while the server runs.
type Clock struct {
	server *Server
	file   string
}

//go:embed clock/clock.c
var shiftingClock []byte

// Clocked starts a real server whose wall clock can be set. It skips the test where no real server or no
// gcc is installed, or where the server can't be fooled.
func Clocked(t testing.TB, args ...string) (*Server, *Clock) {
	t.Helper()
	if !Installed() {
		t.Skip("needs a real redis-server or valkey-server on the PATH: only its clock can be set")
	}
	s := &Server{t: t, build: Builds()[0], dir: t.TempDir(), args: args}
	library := buildClock(t, s.dir)
	c := &Clock{s, filepath.Join(s.dir, "clock")}
	c.write(0)
	s.env = []string{"LD_PRELOAD=" + library, "REDISTEST_CLOCK=" + c.file}
	t.Cleanup(s.Kill)
	for range 10 { // another process may take the port between our look and the start
		s.addr = FreeAddr(t)
		if s.start() == nil {
			c.Set(time.Minute)
			if now := c.Now(); time.Until(now) < 30*time.Second {
				t.Skip("needs a server whose clock can be set: this one does not ask the C library for the time")
			}
			c.Set(0)
			return s, c
		}
	}
	t.Fatal("no redis-server came up in 10 tries")
	return nil, nil
}

// ClockedReplica starts a replica of primary whose wall clock can be set.
func ClockedReplica(t testing.TB, primary *Server) (*Server, *Clock) {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.addr)
	before := primary.Online()
	replica, clock := Clocked(t, slices.Concat(replicating, []string{"--replicaof", host, port})...)
	Wait(t, "the replica is in step with its primary", func() bool { return primary.Online() == before+1 })
	return replica, clock
}

// ClockedPrimary starts a primary that lets replicas be in step soon.
func ClockedPrimary(t testing.TB) (*Server, *Clock) {
	t.Helper()
	return Clocked(t, replicating...)
}

// Set has the clock be ahead of the true time by d, from now on; it is behind where d is negative.
func (c *Clock) Set(d time.Duration) {
	c.server.t.Helper()
	c.write(d)
}

// Now returns what the clock shows.
func (c *Clock) Now() time.Time {
	c.server.t.Helper()
	v, err := redis.Int64s(c.server.Do("TIME"), nil)
	if err != nil || len(v) != 2 {
		c.server.t.Fatalf("TIME: %v, %v", v, err)
	}
	return time.Unix(v[0], v[1]*1000)
}

// write changes the file in place, because the server has mapped it.
func (c *Clock) write(d time.Duration) {
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		c.server.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(encoding.NativeEndian.AppendUint64(nil, uint64(d.Microseconds())), 0); err != nil {
		c.server.t.Fatal(err)
	}
}

// clockLibrary is the library that a server with a clock of its own loads. It is built once.
var clockLibrary = sync.OnceValues(func() ([]byte, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return nil, errors.New("needs gcc on the PATH: a clock that can be set has to be compiled")
	}
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, shiftingClock, 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command(gcc, "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("needs a gcc that can build a library for the clock: %w: %s", err, out)
	}
	return os.ReadFile(library)
})

// buildClock puts the library into a folder, and returns its path.
func buildClock(t testing.TB, dir string) string {
	t.Helper()
	content, err := clockLibrary()
	if err != nil {
		t.Skip(err)
	}
	library := filepath.Join(dir, "clock.so")
	if err := os.WriteFile(library, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return library
}
