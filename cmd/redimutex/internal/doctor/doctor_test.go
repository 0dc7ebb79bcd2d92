//go:build unix

package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// doctor runs the command on servers. TTL and node timeout are long, so that a slow machine causes no finding.
func doctor(t *testing.T, urls []string, args ...string) (int, *diagnosis) {
	t.Helper()
	args = append([]string{"doctor", "-json", "-ttl", "10m", "-node-timeout", "1m"}, args...)
	for _, u := range urls {
		args = append(args, "-redis", u)
	}
	status, out, stderr := clitest.Call(args...)
	assert.Empty(t, stderr)
	d := new(diagnosis)
	require.NoError(t, json.Unmarshal([]byte(out), d), out)
	for _, f := range d.Findings {
		assert.NotEmpty(t, f.What)
		if f.Level != levelOK {
			assert.NotEmpty(t, f.Why, f.ID)
			assert.NotEmpty(t, f.Do, f.ID)
		}
	}
	return status, d
}

// finds is doctor that also checks the exit status and the names of all findings that are not ok.
func finds(t *testing.T, status int, want string, urls []string, args ...string) *diagnosis {
	t.Helper()
	is, d := doctor(t, urls, args...)
	assert.Equal(t, status, is, "%v: %v", args, d.Findings)
	if want != someFindings {
		assert.Equal(t, want, strings.Join(ids(d.Findings), " "), "%v: %v", args, d.Findings)
	}
	return d
}

const someFindings = "some" // the test looks at the findings itself

// ids returns the names of all findings that are not ok.
func ids(all []finding) []string {
	ids := []string{}
	for _, f := range all {
		if f.Level != levelOK {
			ids = append(ids, f.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// the returns the finding with that name.
func the(t *testing.T, all []finding, id string) finding {
	t.Helper()
	for _, f := range all {
		if f.ID == id && f.Level != levelOK {
			return f
		}
	}
	require.Fail(t, "there is no finding "+id, "%v", ids(all))
	return finding{}
}

// login gives a user these permissions and no others, and returns its URL of the server.
func login(s *redistest.Server, user string, permissions ...string) string {
	s.SetUser(user, append([]string{"reset", "on", ">hunter2"}, permissions...)...)
	return "redis://" + user + ":hunter2@" + s.Addr()
}

// durable starts a server that keeps its data.
func durable(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	return redistest.Real(t, append(args, "--appendonly", "yes")...)
}

func TestDoctorFindsNothingWrongWithAHealthyServer(t *testing.T) {
	t.Parallel()
	s := durable(t)
	d := finds(t, cli.OK, someFindings, []string{s.URL()}, "-need", "fencing,queue,replicas,guard", "-ignore", "persistence")
	assert.Equal(t, statusFine, d.Status)
	assert.Empty(t, d.Findings)
	assert.Equal(t, []string{"lock", "fencing", "queue", "replicas", "guard"}, d.Servers[0].Tried)
	assert.Equal(t, "primary", d.Servers[0].Role)
	redistest.Wait(t, "all that was tried is gone", func() bool { return len(s.Keys()) == 0 })

	d = finds(t, cli.OK, "", []string{s.URL()}, "-v")
	assert.Greater(t, len(d.Findings), 5, "what is fine is shown")

	out, _ := clitest.Ends(t, cli.OK, "doctor", "-ttl", "10m", "-redis", s.URL())
	assert.Regexp(t, `works: lock, fencing, queue, semaphore, readers\n  OK\nFine\.\n$`, out)
}

func TestDoctorIsContentWithTheSettingsThatAreRecommended(t *testing.T) {
	t.Parallel()
	var settings []string
	for line := range strings.Lines(clitest.Between(t, clitest.Page(t, "operations.md"), "the tests start a server with these lines -->\n```text\n", "```")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			settings = append(settings, "--"+name, value)
		}
	}
	require.Contains(t, settings, "--maxmemory-policy")
	finds(t, cli.OK, "", []string{redistest.Real(t, settings...).URL()})
}

func TestDoctorSeesThatLocksMayBeEvicted(t *testing.T) {
	t.Parallel()
	s := durable(t, "--maxmemory-policy", "volatile-lru")
	d := finds(t, exitWarnings, "eviction", []string{s.URL()})
	assert.Contains(t, the(t, d.Findings, "eviction").What, "once maxmemory is set")

	s.Do("CONFIG", "SET", "maxmemory", "100mb")
	s.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	d = finds(t, exitWarnings, "eviction", []string{s.URL()})
	assert.Contains(t, the(t, d.Findings, "eviction").What, "maxmemory-policy allkeys-lru")

	out, _ := clitest.Ends(t, exitWarnings, "doctor", "-ttl", "10m", "-redis", s.URL())
	assert.Contains(t, out, "  warning eviction: "+s.Addr()+"/0 evicts keys when its memory is full")
	assert.Contains(t, out, "Usable: 0 errors, 1 warning.\n")
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "          ") {
			assert.LessOrEqual(t, len(line), 81, line)
		}
	}

	finds(t, cli.OK, "", []string{s.URL()}, "-ignore", "eviction") // it is known
}

func TestDoctorSeesAFullMemory(t *testing.T) {
	t.Parallel()
	s := durable(t, "--maxmemory", "1kb")
	d := finds(t, exitUnusable, "memory", []string{s.URL()})
	assert.Equal(t, levelError, d.Findings[0].Level)
	assert.Contains(t, d.Findings[0].What, "OOM")
}

func TestDoctorSeesThatARestartForgetsLocks(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "tells nothing of its persistence")
	var servers []*redistest.Server
	var urls []string
	for range 3 {
		s := redistest.Start(t)
		servers, urls = append(servers, s), append(urls, s.URL())
	}
	d := finds(t, exitWarnings, "persistence persistence persistence", urls)
	assert.Contains(t, d.Findings[0].Do, "WithRestartGuard")

	assert.Equal(t, []string{"lock", "fencing", "guard"}, d.Servers[0].Tried, "and nothing that is for one server")

	finds(t, cli.OK, "", urls, "-need", "guard") // the guard makes up for it
	for _, s := range servers {
		redistest.Wait(t, "all that was tried is gone", func() bool { return len(s.Keys()) == 0 })
	}

	for _, s := range servers {
		s.Do("CONFIG", "SET", "appendonly", "yes")
	}
	finds(t, cli.OK, "", urls)
	_, d = doctor(t, urls, "-need", "guard")
	assert.Contains(t, the(t, d.Findings, "persistence").What, "which the restart guard does not notice")
	servers[0].Do("CONFIG", "SET", "appendonly", "no")
	servers[0].Do("CONFIG", "SET", "save", "60 1")
	d = finds(t, exitWarnings, "persistence", urls)
	assert.Contains(t, the(t, d.Findings, "persistence").What, "snapshots alone")
}

func TestDoctorSeesThatOneServerHasTwoNames(t *testing.T) {
	t.Parallel()
	s := durable(t)
	d := finds(t, exitUnusable, "even same-server", []string{s.URL(), strings.Replace(s.URL(), "127.0.0.1", "localhost", 1)})
	assert.Equal(t, "", the(t, d.Findings, "same-server").Server, "it is about both")
	assert.Equal(t, levelError, the(t, d.Findings, "same-server").Level)
	finds(t, exitUnusable, "even", []string{s.URL(), strings.Replace(s.URL(), "127.0.0.1", "localhost", 1)}, "-ignore", "same-server")
}

func TestDoctorSeesWhatBlockedTheServerAndShowsNoArguments(t *testing.T) {
	t.Parallel()
	s := durable(t)
	s.Do("EVAL", "for i = 1, 1e8 do end", 1, "hunter2")
	_, d := doctor(t, []string{s.URL()}, "-node-timeout", "50ms")
	f := the(t, d.Findings, "slow-commands")
	assert.Regexp(t, "[0-9] times? in the last hour", f.What, "a server that was stopped meanwhile may count others too")
	assert.Contains(t, f.What, "EVAL")
	assert.NotContains(t, f.What, "hunter2")

	s.Do("SLOWLOG", "RESET")
	s.Do("CONFIG", "SET", "slowlog-log-slower-than", -1)
	d = finds(t, cli.OK, "", []string{s.URL()}, "-v", "-ignore", "latency")
	assert.Contains(t, fmt.Sprint(d.Findings), "does not log commands that outlast the node timeout")
	assert.NotContains(t, fmt.Sprint(d.Findings), "was not blocked")
}

func TestDoctorSeesAServerThatIsBusy(t *testing.T) {
	t.Parallel()
	s := durable(t, "--lua-time-limit", "10")
	c, err := redis.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Send("EVAL", "while true do end", 0))
	require.NoError(t, c.Flush())
	redistest.Wait(t, "the server is busy", func() bool {
		c, err := redis.Dial("tcp", s.Addr())
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = c.Do("PING")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	})
	status, d := doctor(t, []string{s.URL()})
	s.Do("SCRIPT", "KILL")
	assert.Equal(t, exitUnusable, status)
	assert.Equal(t, []string{"not-ready"}, ids(d.Findings))
}

func TestDoctorSaysWhatANodeOfAClusterMeans(t *testing.T) {
	t.Parallel()
	s := durable(t, "--cluster-enabled", "yes")
	s.ServeAlone()
	d := finds(t, exitWarnings, "cluster", []string{s.URL()})
	assert.Equal(t, []string{"lock", "fencing", "queue", "semaphore", "readers"}, d.Servers[0].Tried)

	d = finds(t, exitUnusable, someFindings, []string{s.URL()}, "-need", "guard")
	assert.Contains(t, the(t, d.Findings, "cannot-guard").What, "CROSSSLOT")

	other := durable(t)
	third := durable(t)
	_, d = doctor(t, []string{s.URL(), other.URL(), third.URL()})
	assert.Equal(t, levelError, the(t, d.Findings, "cluster").Level, "it is no server for a Redlock")
}

func TestDoctorTriesKeysThatTheNodeServes(t *testing.T) {
	t.Parallel()
	const quiet = "persistence,replica-lag"
	c := redistest.StartCluster(t)
	prefix := "{" + t.Name() + "}:" // the slot of all keys that begin with it
	owner := c.Owner(prefix)
	for i, n := range c.Nodes[:3] {
		// The keys are random, so only repetitions can show a trial on a key of another node.
		for range 4 {
			d := finds(t, exitWarnings, "cluster", []string{n.URL()}, "-ignore", quiet, "-need", "fencing,queue,semaphore,readers")
			require.Len(t, d.Servers[0].Tried, 5, "%v", d.Findings)
		}
		if i == owner {
			finds(t, exitWarnings, "cluster", []string{n.URL()}, "-ignore", quiet, "-key", prefix)
			continue
		}
		d := finds(t, exitUnusable, "cluster cluster", []string{n.URL()}, "-ignore", quiet, "-key", prefix)
		assert.Contains(t, d.Findings[len(d.Findings)-1].What, "serves no key that begins with "+prefix)
	}

	redistest.Needs(t, redistest.ACL)
	n := c.Nodes[0]
	billing := login(n, "billing", "resetchannels", "~lock:*", "~redimutex:fence:{lock:*}",
		"+set", "+getrange", "+del", "+pexpire", "+pttl", "+time", "+eval", "+evalsha", "+ping", "+get")
	for range 4 {
		finds(t, cli.OK, "", []string{billing}, "-need", "fencing", "-key", "lock:", "-ignore", "unchecked")
	}
}

func TestDoctorTellsWrongUsageFromAnUnusableServer(t *testing.T) {
	t.Parallel()
	clitest.Misuse(t, exitUsage, map[string][]string{
		"an RWMutex are for one server, and 2 are given": {"doctor", "-redis", "redis://a", "-redis", "redis://b", "-need", "readers"},
		"-need: WithQueue, a Semaphore":                  {"doctor", "-redis", "redis://a", "-redis", "redis://b", "-need", "queue"},
		"it takes no arguments but flags":                {"doctor", "redis://:hunter2@host"},
		"there is no \"fences\"":                         {"doctor", "-need", "fencing,fences"},
		"there is no \"everything\"":                     {"doctor", "-ignore", "everything"},
		"\"\" for flag -ignore: it is empty":             {"doctor", "-ignore", ""},
		"\"\" for flag -need: it is empty":               {"doctor", "-need", ""},
		"\",\" for flag -need: it is empty":              {"doctor", "-need", ","},
		"\"-1\" for flag -replicas":                      {"doctor", "-replicas", "-1"},
		"-ttl 1ms":                                       {"doctor", "-ttl", "1ms"},
		"-node-timeout 10s: has to be less":              {"doctor", "-node-timeout", "10"},
		"-node-timeout 0s: has to be 1ms at least":       {"doctor", "-node-timeout", "0"},
		"\"\" for flag -key: it is empty":                {"doctor", "-key", ""},
		"there is no flag -ww":                           {"doctor", "-ww"},
		"no such file":                                   {"doctor", "-redis", "@/there/is/no/such/file"},
	})
}
