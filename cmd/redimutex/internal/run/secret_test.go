//go:build unix

package run

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestPasswordShowsUpNowhere(t *testing.T) {
	const password = "hunter2"
	s := redistest.Real(t)
	s.Do("ACL", "SETUSER", "someone", "on", ">"+password, "~*", "&*", "+@all")
	url := "redis://someone:" + password + "@" + s.Addr()
	file := filepath.Join(t.TempDir(), "url")
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
			args := append(append([]string{"run"}, c.flags...), "job", "--", "sh", "-c", "env; echo ready; sleep 1000")
			p := clitest.Prepare(t, nil, args...)
			p.Cmd.Env = append(p.Cmd.Env, c.env)
			p.Start()
			p.Says("ready\n")
			waiter := clitest.Prepare(t, nil, append(append([]string{"run", "-w", "0.2"}, c.flags...), "job", "--", "true")...)
			waiter.Cmd.Env = append(waiter.Cmd.Env, c.env)
			waiter.Start()
			assert.Equal(t, 1, waiter.Status(), waiter.Err())
			if clitest.Exists("/proc/self/cmdline") {
				line, err := os.ReadFile("/proc/" + strconv.Itoa(p.Cmd.Process.Pid) + "/cmdline")
				require.NoError(t, err)
				assert.NotContains(t, string(line), password, "ps shows it")
			}
			assert.NotContains(t, s.Get("job"), password)
			p.Signal(15)
			assert.Equal(t, 143, p.Status())
			assert.Contains(t, p.Out(), c.want)
			for _, text := range []string{p.Out(), p.Err(), waiter.Out(), waiter.Err()} {
				assert.NotContains(t, text, password)
			}
		})
	}
}

func TestEnvironmentOfTheProgramItselfIsLeftAlone(t *testing.T) {
	s := redistest.Start(t)
	p := clitest.Prepare(t, nil, "run", "job", "--", "sh", "-c", `echo "$REDIS_URL"; echo "$REDIMUTEX_URL"; echo "$REDIMUTEX_KEY"`)
	p.Cmd.Env = append(p.Cmd.Env, "REDIS_URL="+s.URL())
	p.Start()
	assert.Equal(t, 0, p.Status(), p.Err())
	assert.Equal(t, s.URL()+"\n\njob\n", p.Out())
}

func TestRunInsideARunFindsTheSameServer(t *testing.T) {
	s := redistest.Start(t)
	self, err := os.Executable()
	require.NoError(t, err)
	status, out, stderr := clitest.Run(t, s, "run", "outer", "--", self, "run", "outer", "-n", "-E", "9", "--", "echo", "ran")
	assert.Equal(t, 9, status, stderr)
	assert.Empty(t, out)
}

func TestEnvironmentOfTheCommand(t *testing.T) {
	t.Setenv(servers.EnvURL, "redis://u:p@h/2,rediss://:p@i:7000 unix://u:p@/s?db=1")
	nodes, err := servers.Find(nil, servers.QuickTimeout)
	require.NoError(t, err)
	env := []string{"A=1", "REDIMUTEX_URL=redis://:p@another", "REDIMUTEX_KEY=x", "REDIS_URL=redis://:p@h", "REDIMUTEX_HOLDS=3:outer"}
	assert.Equal(t, []string{
		"A=1", "REDIS_URL=redis://:p@h", "REDIMUTEX_URL=redis://h/2,rediss://i:7000,unix:///s?db=1",
		"REDIMUTEX_KEY=my job", "REDIMUTEX_FENCE=7", "REDIMUTEX_HOLDS=3:outer 7:my+job",
	}, environment(env, &job{key: "my job", servers: nodes}, 7))
}

func TestLabelIsHostPidAndCommandWithoutPasswords(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	require.NoError(t, err)
	start := host + " pid " + strconv.Itoa(os.Getpid()) + ": "
	for command, want := range map[string]string{
		"backup.sh orders":                          "backup.sh orders",
		"psql postgres://me:hunter2@db/orders -c x": "psql postgres://***@db/orders -c x",
		"mysql --password=hunter2 orders":           "mysql --password=*** orders",
		"env API_TOKEN=hunter2 x":                   "env API_TOKEN=*** x",
		"a\nb\x1b[0m\x00c\xff":                      "a b [0m c?",
	} {
		j := &job{command: strings.Split(command, " ")}
		assert.Equal(t, start+filepath.Base(strings.Fields(want)[0]), (&job{command: j.command[:1]}).label())
		j.arguments = true
		assert.Equal(t, start+want, j.label())
	}
	long := (&job{arguments: true, command: []string{strings.Repeat("ü", 300)}}).label()
	assert.LessOrEqual(t, len(long), maxLabel)
	assert.Greater(t, len(long), maxLabel-4)
	assert.True(t, strings.HasSuffix(long, "ü..."), long)
	assert.Equal(t, "me", (&job{owner: "me", command: []string{"x"}}).label())
}
