//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
			p := prepare(t, nil, args...)
			p.cmd.Env = append(p.cmd.Env, c.env)
			p.start()
			p.says("ready\n")
			waiter := prepare(t, nil, append(append([]string{"run", "-w", "0.2"}, c.flags...), "job", "--", "true")...)
			waiter.cmd.Env = append(waiter.cmd.Env, c.env)
			waiter.start()
			assert.Equal(t, 1, waiter.status(), waiter.err())
			if exists("/proc/self/cmdline") {
				line, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/cmdline")
				require.NoError(t, err)
				assert.NotContains(t, string(line), password, "ps shows it")
			}
			assert.NotContains(t, s.Get("job"), password)
			p.signal(15)
			assert.Equal(t, 143, p.status())
			assert.Contains(t, p.out(), c.want)
			for _, text := range []string{p.out(), p.err(), waiter.out(), waiter.err()} {
				assert.NotContains(t, text, password)
			}
		})
	}
}

func TestEnvironmentOfTheProgramItselfIsLeftAlone(t *testing.T) {
	s := redistest.Start(t)
	p := prepare(t, nil, "run", "job", "--", "sh", "-c", `echo "$REDIS_URL"; echo "$REDIMUTEX_URL"; echo "$REDIMUTEX_KEY"`)
	p.cmd.Env = append(p.cmd.Env, "REDIS_URL="+s.URL())
	p.start()
	assert.Equal(t, 0, p.status(), p.err())
	assert.Equal(t, s.URL()+"\n\njob\n", p.out())
}

func TestRunInsideARunFindsTheSameServer(t *testing.T) {
	s := redistest.Start(t)
	self, err := os.Executable()
	require.NoError(t, err)
	status, out, stderr := run(t, s, "run", "outer", "--", self, "run", "outer", "-n", "-E", "9", "--", "echo", "ran")
	assert.Equal(t, 9, status, stderr)
	assert.Empty(t, out)
}

func TestEnvironmentOfTheCommand(t *testing.T) {
	t.Parallel()
	env := []string{"A=1", "REDIMUTEX_URL=redis://u:p@h/2,rediss://:p@i:7000 unix://u:p@/s?db=1", "REDIMUTEX_KEY=x", "REDIS_URL=redis://:p@h"}
	assert.Equal(t, []string{
		"A=1", "REDIMUTEX_URL=redis://h/2,rediss://i:7000,unix:///s?db=1", "REDIS_URL=redis://:p@h",
		"REDIMUTEX_KEY=job", "REDIMUTEX_FENCE=7",
	}, environment(env, "job", 7))
	assert.Equal(t, []string{"REDIMUTEX_KEY=job", "REDIMUTEX_FENCE=7"},
		environment([]string{"REDIMUTEX_URL=redis://:p/assword@host"}, "job", 7), "what can't be taken apart is left out")
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
		assert.Equal(t, start+want, j.label())
	}
	long := (&job{command: []string{strings.Repeat("ü", 300)}}).label()
	assert.LessOrEqual(t, len(long), maxLabel)
	assert.Greater(t, len(long), maxLabel-4)
	assert.True(t, strings.HasSuffix(long, "ü..."), long)
	assert.Equal(t, "me", (&job{owner: "me", command: []string{"x"}}).label())
}
