package redistest

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Variable holds the paths of server binaries, separated as in PATH. Tests use the first of them, the
// row "servers" of the faults all. By default it is the server that is on the PATH.
const Variable = "REDIMUTEX_SERVERS"

// A Build is a binary of a server.
type Build struct {
	Path    string
	Name    string // such as Redis
	Version string // such as 7.0.15

	major, minor int
}

// String returns name and version.
func (b Build) String() string { return b.Name + " " + b.Version }

// Builds returns the servers of this machine, those that Variable names or the one that is on the PATH.
// It panics if Variable names something else: tests that quietly use another server show nothing.
var Builds = sync.OnceValue(func() (builds []Build) {
	for _, path := range filepath.SplitList(os.Getenv(Variable)) {
		b, err := inspect(path)
		if err != nil {
			panic(fmt.Sprintf("%s: %s: %v", Variable, path, err))
		}
		builds = append(builds, b)
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil && len(builds) == 0 {
			if b, err := inspect(path); err == nil {
				builds = append(builds, b)
			}
		}
	}
	return builds
})

var versionLine = regexp.MustCompile(`^(?:(\w+) s|S)erver v=((\d+)\.(\d+)\S*)`)

// inspect asks a binary what it is.
func inspect(path string) (Build, error) {
	out, err := exec.Command(path, "--version").CombinedOutput()
	if err != nil {
		return Build{}, err
	}
	words := versionLine.FindStringSubmatch(string(out))
	if words == nil {
		return Build{}, fmt.Errorf("it says %q, which no server does", out)
	}
	b := Build{Path: path, Name: cmp.Or(words[1], "Valkey"), Version: words[2]} // Valkey 7.2 calls itself "Server"
	b.major, _ = strconv.Atoi(words[3])
	b.minor, _ = strconv.Atoi(words[4])
	return b, nil
}

// A Feature is what old servers can't do. Valkey begins where Redis 7.2 was.
type Feature struct {
	What         string
	major, minor int // the first Redis that has it
}

// What tests want of a server.
var (
	ACL          = Feature{"users (ACL)", 6, 0}
	TLS          = Feature{"TLS, or was built without it", 6, 0}
	Tracking     = Feature{"CLIENT TRACKING", 6, 0}
	ByScore      = Feature{"BYSCORE for ZRANGE", 6, 2}
	ClientInfo   = Feature{"CLIENT INFO", 6, 2}
	MinReplicas  = Feature{"min-replicas-to-write for what scripts write", 6, 0}
	ChannelRules = Feature{"rules for channels (&)", 6, 2}
	LoadSlowly   = Feature{"loading-process-events-interval-bytes", 7, 0}
	KeyReading   = Feature{"rules for reading keys (%R~)", 7, 0}
)

// Lacks says that the server can't do something.
func (b Build) Lacks(f Feature) string {
	return fmt.Sprintf("%v has no %s: Redis %d.%d is the first", b, f.What, f.major, f.minor)
}

// Has reports whether the server can do that.
func (b Build) Has(f Feature) bool {
	if f == TLS && !b.speaksTLS() {
		return false
	}
	return b.major > f.major || b.major == f.major && b.minor >= f.minor
}

// speaksTLS reports whether the server was built with TLS: if so, it ends for want of a certificate. Whether it knows the
// settings says nothing: since Redis 7.2 it always does.
func (b Build) speaksTLS() bool {
	out, _ := exec.Command(b.Path, "--port", "0", "--tls-port", "1").CombinedOutput()
	return bytes.Contains(out, []byte("No tls-cert-file configured"))
}

// Differs skips the test with miniredis, which differs from Redis in this.
func Differs(t testing.TB, miniredis string) {
	t.Helper()
	if !Installed() {
		t.Skip("miniredis " + miniredis + onlyReal)
	}
}

// Needs skips the test where the server can't do something.
func Needs(t testing.TB, features ...Feature) {
	t.Helper()
	for _, f := range features {
		Differs(t, "has no "+f.What)
		if b := Builds()[0]; !b.Has(f) {
			t.Skip(b.Lacks(f))
		}
	}
}

// Rules are those of ACL SETUSER, as docs/security.md wants them on servers that lack some: those for channels are left out,
// and keys that may be read may be used.
func Rules(rules ...string) (known []string) {
	b := Builds()[0]
	for _, rule := range rules {
		if !b.Has(KeyReading) {
			rule = strings.Replace(rule, "%R~", "~", 1)
		}
		if b.Has(ChannelRules) || rule[0] != '&' && rule != "resetchannels" {
			known = append(known, rule)
		}
	}
	return known
}

// SetUser changes a user by [Rules].
func (s *Server) SetUser(name string, rules ...string) {
	s.t.Helper()
	s.Do("ACL", redis.Args{"SETUSER", name}.AddFlat(Rules(rules...))...)
}

// SourceAddr are the arguments of a server whose connections to others come from a loopback address.
func SourceAddr(ip string) []string {
	if Installed() && Builds()[0].major >= 7 {
		return []string{"--bind-source-addr", ip}
	}
	return []string{"--bind", ip, "127.0.0.1"}
}

// Debugging are the arguments of a server that takes DEBUG commands.
func Debugging() []string {
	if Installed() && Builds()[0].major >= 7 {
		return []string{"--enable-debug-command", "yes"} // before, all do
	}
	return nil
}
