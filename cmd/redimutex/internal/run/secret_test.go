//go:build unix

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Other users can see the arguments of a process. Only its own user and root can see its environment. The command gets no
// password at all, and redimutex has it only where the user put it.
func TestPasswordShowsUpNowhere(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	const password = "hunter2"
	s := redistest.Start(t)
	s.SetUser("someone", "on", ">"+password, "~*", "&*", "+@all")
	url := "redis://someone:" + password + "@" + s.Addr()
	file := filepath.Join(clitest.ListedDir(t), "url")
	require.NoError(t, os.WriteFile(file, []byte("# the server\n"+url+"\n"), 0o600))
	for name, c := range map[string]struct {
		flags []string
		env   string
		want  string // what the command finds
	}{
		"REDIMUTEX_URL":             {nil, "REDIMUTEX_URL=" + url, "REDIMUTEX_URL=redis://" + s.Addr() + "\n"},
		"a file":                    {[]string{"-redis", "@" + file}, "", ""},
		"a file in the environment": {nil, "REDIMUTEX_URL=@" + file, "REDIMUTEX_URL=@" + file + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			start := func(command ...string) *clitest.Process {
				p := clitest.Prepare(t, nil, slices.Concat([]string{"run", "-w", "2"}, c.flags, []string{"job", "--"}, command)...)
				p.Cmd.Env = append(p.Cmd.Env, c.env)
				p.Start()
				return p
			}
			p := start("sh", "-c", `env; echo "[$$]"; `+lingering)
			p.Says("ready\n")
			waiter := start("true")
			assert.Equal(t, 1, waiter.Status(), waiter.Err())
			child := p.Prints(1)[0]
			assert.NotEqual(t, p.Cmd.Process.Pid, child)
			for _, of := range []string{"cmdline", "comm", "environ"} {
				assert.NotContains(t, proc(t, child, of), password, "%s of the command", of)
				if of != "environ" || !strings.Contains(c.env, password) {
					assert.NotContains(t, proc(t, p.Cmd.Process.Pid, of), password, "%s of redimutex", of)
				}
			}
			assert.NotContains(t, s.Get("job"), password)
			terminate(t, p)
			assert.Contains(t, p.Out(), c.want)
			for _, text := range []string{p.Out(), p.Err(), waiter.Out(), waiter.Err()} {
				assert.NotContains(t, text, password)
			}
		})
	}
}

// proc returns a file about a process, if the system has such files.
func proc(t *testing.T, pid int, name string) string {
	t.Helper()
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
	if hasProc() {
		require.NoError(t, err)
	}
	return string(content)
}

func TestCommandGetsTheServersThatWeUse(t *testing.T) {
	s, other := redistest.Start(t), redistest.Start(t)
	dir := clitest.ListedDir(t)
	dir, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "urls"), []byte(s.URL()), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "two urls"), []byte("redis://:hunter2@"+s.Addr()), 0o600))
	for name, c := range map[string]struct {
		flags []string
		want  string
	}{
		"a flag goes before the environment": {[]string{"-redis", s.URL()}, s.URL()},
		"a file is found from any folder":    {[]string{"-redis", "@urls"}, "@" + filepath.Join(dir, "urls")},
		"the environment":                    {nil, other.URL()},
		"a stream is ours alone":             {[]string{"-redis", "@/dev/stdin"}, s.URL()},
	} {
		p := clitest.Prepare(t, other, append(append([]string{"run"}, c.flags...), "job", "--", "sh", "-c", `echo "$REDIMUTEX_URL"`)...)
		p.Cmd.Dir = dir
		stdin, err := os.Open(filepath.Join(dir, "urls"))
		require.NoError(t, err)
		defer stdin.Close()
		p.Cmd.Stdin = stdin
		p.Start()
		assert.Equal(t, 0, p.Status(), p.Err())
		assert.Equal(t, c.want+"\n", p.Out(), name)
	}
	t.Chdir(dir)
	nodes, err := servers.Find(servers.URLs{"@two urls"}, servers.QuickTimeout)
	require.NoError(t, err)
	assert.Equal(t, s.URL(), nodes.Child(), "a file whose name a list can't have")
	require.NoError(t, syscall.Mkfifo("pipe", 0o600))
	go os.WriteFile("pipe", []byte("redis://:hunter2@"+s.Addr()), 0o600) //nolint:errcheck // if it fails, Find gets no URL
	nodes, err = servers.Find(servers.URLs{"@pipe"}, servers.QuickTimeout)
	require.NoError(t, err)
	assert.Equal(t, s.URL(), nodes.Child(), "a pipe, which has been read")
	nodes, err = servers.Find(nil, servers.QuickTimeout)
	require.NoError(t, err)
	assert.Equal(t, "redis://127.0.0.1:6379", nodes.Child(), "the default is told as well")

	self := clitest.Self(t)
	_, out, stderr := clitest.Run(t, other, "run", "-redis", s.URL(), "job", "--", self, "show", "job")
	assert.Contains(t, out, "job: held by", stderr)
}

func TestRunInsideARunOfTheSameLockSaysSoAndEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	self := clitest.Self(t)
	for name, inner := range map[string][]string{
		"its child":      {self, "run", "outer", "--", "echo", "ran"},
		"with a limit":   {self, "run", "-w", "60", "outer", "--", "echo", "ran"},
		"in the queue":   {self, "run", "-queue", "outer", "--", "echo", "ran"},
		"its grandchild": {self, "run", "another", "--", self, "run", "outer", "--", "echo", "ran"},
	} {
		out, stderr := clitest.RunEnds(t, 1, s, append([]string{"run", "outer", "--"}, inner...)...)
		assert.Empty(t, out)
		assert.Contains(t, stderr, "which runs this command: the wait may never end", name)
		assert.Equal(t, 1, strings.Count(stderr, "the wait may never end\n"), stderr)
	}
	for _, flags := range [][]string{{"-s", ""}, {"-permits=1", "-permits=1"}, {"other", "another"}} { // of any kind
		args := append([]string{"run", "job"}, strings.Fields(flags[0])...)
		args = append(append(args, "--", self, "run", "job"), strings.Fields(flags[1])...)
		_, stderr := clitest.RunEnds(t, 1, s, append(args, "--", "true")...)
		assert.Contains(t, stderr, "the wait may never end", flags)
	}
	// Permits of other holders do not count, because they will be released.
	other := clitest.Launch(t, s, "run", "-permits=3", "permits", "--", "sleep", "1000")
	redistest.Wait(t, "the other's permit", func() bool { return s.Exists("permits") })
	for permits, want := range map[string]string{"-permits=2": "waiting for", "-permits=1": "the wait may never end"} {
		_, stderr := clitest.RunEnds(t, 1, s, "run", "-permits=3", "permits", "--", self, "run", permits, "-w", "1", "permits", "--", "true")
		assert.Contains(t, stderr, want, permits)
	}
	other.Signal(syscall.SIGTERM)
	// If another holder has the lock that an ancestor had, the run waits.
	s.Do("SET", "outer", clitest.Token("web-1"), "PX", 60000)
	p := clitest.Prepare(t, s, "run", "-w", "2", "outer", "--", "true")
	p.Cmd.Env = append(p.Cmd.Env, "REDIMUTEX_HOLDS=12:outer 1:"+hash("another token"))
	p.Start()
	assert.Equal(t, 1, p.Status())
	assert.Contains(t, p.Err(), "waiting for \"outer\", held by web-1")
}

// A process that the command has left in the background has no ancestor any more.
func TestProcessThatOutlivedItsCommandWaitsForTheMinHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	self := clitest.Self(t)
	script := fmt.Sprintf(`(while kill -0 $PPID; do sleep 0.02; done; exec %q run -w 60 outer -- echo ran) &`, self)
	p := clitest.Launch(t, s, "run", "-ttl", "2", "-min-hold", "6", "outer", "--", "sh", "-c", script)
	assert.Equal(t, 0, p.Status(), p.Err())
	p.Warns("waiting for \"outer\"")
	p.Says("ran\n")
	assert.NotContains(t, p.Err(), "which runs this command")
}

func TestEnvironmentOfTheCommand(t *testing.T) {
	t.Setenv(servers.EnvURL, "redis://u:p@h/2,rediss://:p@i:7000 unix://u:p@/s?db=1")
	nodes, err := servers.Find(nil, servers.QuickTimeout)
	require.NoError(t, err)
	env := []string{"A=1", "REDIMUTEX_URL=redis://:p@another", "REDIMUTEX_KEY=x", "REDIS_URL=redis://:p@h", "REDIMUTEX_HOLDS=3:outer"}
	assert.Equal(t, []string{
		"A=1", "REDIS_URL=redis://:p@h", "REDIMUTEX_URL=redis://h/2,rediss://i:7000,unix:///s?db=1",
		"REDIMUTEX_KEY=my job", "REDIMUTEX_FENCE=7", fmt.Sprintf("REDIMUTEX_HOLDS=3:outer %d:%s", os.Getpid(), hash("a token")),
	}, environment(env, &job{keys: []string{"my job"}, servers: nodes}, 7, "a token"))
}

func TestLabelIsHostPidAndTheNameOfTheCommand(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	require.NoError(t, err)
	start := host + " pid " + strconv.Itoa(os.Getpid()) + ": "
	for command, want := range map[string]string{
		"backup.sh orders":                             "backup.sh orders",
		"psql postgres://me:hunter2@db/orders -c x":    "psql postgres://***@db/orders -c x",
		"mysql --password=hunter2 orders":              "mysql --password=*** orders",
		"env API_TOKEN=hunter2 x":                      "env API_TOKEN=*** x",
		`curl -d {"user":"me","password":"hunter2"} x`: `curl -d {"user":"me","password":*** x`,
		"a\nb\x1b[0m\x00c\xff":                         "a b [0m c?",
	} {
		assert.Equal(t, start+want, (&job{arguments: true, command: strings.Split(command, " ")}).label())
	}
	for _, command := range [][]string{{"/usr/bin/curl", "-u", "bob:hunter2"}, {"curl", "--token", "yyy"}} {
		assert.Equal(t, start+"curl", (&job{command: command}).label(), "arguments are shown on request only")
	}
	long := (&job{arguments: true, command: []string{strings.Repeat("ü", 300)}}).label()
	assert.LessOrEqual(t, len(long), maxLabel)
	assert.Greater(t, len(long), maxLabel-4)
	assert.True(t, strings.HasSuffix(long, "ü..."), long)
	assert.Equal(t, "me", (&job{owner: "me", command: []string{"x"}}).label())
}
