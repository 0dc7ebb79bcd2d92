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

// Variable is the environment variable with the paths of server binaries, separated as in PATH. Tests use the first one; the
// row "servers" of the faults uses all. The default is the server on the PATH.
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

// Builds returns the servers of this machine: those that Variable names, or else the one on the PATH. It panics if Variable
// names something that is no server, because tests that silently use another server show nothing.
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

// inspect asks a binary for its name and version.
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

// A Feature is something that old servers can't do. Valkey counts as Redis 7.2 or later.
type Feature struct {
	What         string
	major, minor int // the first Redis that has it
}

// The features that tests need.
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

// Lacks returns a sentence that says that the server does not have f.
func (b Build) Lacks(f Feature) string {
	return fmt.Sprintf("%v has no %s: Redis %d.%d is the first", b, f.What, f.major, f.minor)
}

// Has reports whether the server has f.
func (b Build) Has(f Feature) bool {
	if f == TLS && !b.speaksTLS() {
		return false
	}
	return b.major > f.major || b.major == f.major && b.minor >= f.minor
}

// speaksTLS reports whether the server was built with TLS: if so, it exits because no certificate is configured. To know the
// TLS settings proves nothing: since Redis 7.2 every server does.
func (b Build) speaksTLS() bool {
	out, _ := exec.Command(b.Path, "--port", "0", "--tls-port", "1").CombinedOutput()
	return bytes.Contains(out, []byte("No tls-cert-file configured"))
}

// Differs skips the test with miniredis, which differs from Redis in the given way.
func Differs(t testing.TB, miniredis string) {
	t.Helper()
	if !Installed() {
		t.Skip("miniredis " + miniredis + onlyReal)
	}
}

// Needs skips the test if the server lacks one of the features.
func Needs(t testing.TB, features ...Feature) {
	t.Helper()
	for _, f := range features {
		Differs(t, "has no "+f.What)
		if b := Builds()[0]; !b.Has(f) {
			t.Skip(b.Lacks(f))
		}
	}
}

// Rules adapts rules of ACL SETUSER, as in docs/security.md, to servers that lack some: rules for channels are left out, and
// permission to read a key becomes permission to use it.
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

// SourceAddr returns arguments for a server whose outgoing connections come from a loopback address.
func SourceAddr(ip string) []string {
	if Installed() && Builds()[0].major >= 7 {
		return []string{"--bind-source-addr", ip}
	}
	return []string{"--bind", ip, "127.0.0.1"}
}

// Debugging returns arguments for a server that accepts DEBUG commands.
func Debugging() []string {
	if Installed() && Builds()[0].major >= 7 {
		return []string{"--enable-debug-command", "yes"} // older servers always do
	}
	return nil
}
