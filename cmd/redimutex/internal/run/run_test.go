//go:build unix

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestOneCommandAtATimeRuns(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	counter := filepath.Join(t.TempDir(), "counter")
	require.NoError(t, os.WriteFile(counter, []byte("0\n"), 0o600))
	// Two of these that run together lose updates in the gap between reading and writing.
	script := fmt.Sprintf(`read n <%[1]q; sleep 0.01; echo $((n+1)) >%[1]q`, counter)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5 {
				clitest.RunEnds(t, 0, s, "run", "job", "--", "sh", "-c", script)
			}
		})
	}
	all.Wait()
	n, err := os.ReadFile(counter)
	require.NoError(t, err)
	assert.Equal(t, "20\n", string(n))
	assert.NotContains(t, s.Keys(), "job")
}

func TestExitStatusIsThatOfTheCommand(t *testing.T) {
	s := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("exit $1\n"), 0o700))
	for name, c := range map[string]struct {
		command []string
		status  int
	}{
		"success":               {[]string{"true"}, 0},
		"failure":               {[]string{"sh", "-c", "exit 7"}, 7},
		"highest":               {[]string{"sh", "-c", "exit 255"}, 255},
		"died of TERM":          {[]string{"sh", "-c", "kill -TERM $$"}, 143},
		"died of KILL":          {[]string{"sh", "-c", "kill -KILL $$"}, 137},
		"missing in the PATH":   {[]string{"there-is-no-such-command"}, 127},
		"missing file":          {[]string{file + "-missing"}, 127},
		"not executable":        {[]string{file}, 126},
		"a folder":              {[]string{t.TempDir()}, 126},
		"a script without #!":   {[]string{script, "5"}, 5},
		"a -- of the command's": {[]string{"sh", "-c", `test "$1" = -- && exit 9`, "sh", "--"}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := "job " + name
			out, stderr := clitest.RunEnds(t, c.status, s, append([]string{"run", key, "--"}, c.command...)...)
			assert.Empty(t, out)
			if c.status == 126 || c.status == 127 {
				assert.Contains(t, stderr, fmt.Sprintf("%q", c.command[0]))
				assert.Equal(t, 1, strings.Count(stderr, "\n"))
			} else {
				assert.Empty(t, stderr)
			}
			assert.NotContains(t, s.Keys(), key, "the lock is released, whatever became of the command")
		})
	}
}

func TestHeldLockEndsTheWaitAsFlockDoes(t *testing.T) {
	s := redistest.Start(t)
	s.Do("SET", "job", "another holder")
	const held = "held by an unknown owner, with a key that never expires\n"
	const waits, is = "redimutex: waiting for \"job\", " + held, "redimutex: \"job\" is " + held
	for name, c := range map[string]struct {
		flags  []string
		status int
		words  string
	}{
		"-n":                        {[]string{"-n"}, 1, is},
		"-nonblock":                 {[]string{"-nonblock"}, 1, is},
		"--nonblock":                {[]string{"--nonblock"}, 1, is},
		"-n -E":                     {[]string{"-n", "-E", "42"}, 42, is},
		"-n -E 0":                   {[]string{"-n", "-E", "0"}, 0, is},
		"-n -conflict-exit-code":    {[]string{"-n", "-conflict-exit-code=43"}, 43, is},
		"-n, quietly":               {[]string{"-n", "-q"}, 1, ""},
		"-w in seconds":             {[]string{"-w", "0.2"}, 1, waits + "redimutex: gave up \"job\" after 200ms, " + held},
		"-w as a duration":          {[]string{"-w", "200ms", "-E", "44"}, 44, waits + "redimutex: gave up \"job\" after 200ms, " + held},
		"-wait":                     {[]string{"-wait", "0.2"}, 1, waits + "redimutex: gave up \"job\" after 200ms, " + held},
		"-w 0 is -n, as with flock": {[]string{"-w", "0"}, 1, is},
		"-w shorter than a try":     {[]string{"-w", "1ns"}, 1, waits + "redimutex: gave up \"job\" after 1ns, " + held},
		"-w, quietly":               {[]string{"-q", "-w", "0.2"}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, stderr := clitest.RunEnds(t, c.status, s, append(append([]string{"run"}, c.flags...), "job", "--", "echo", "ran")...)
			assert.Empty(t, out, "the command must not run")
			assert.Equal(t, c.words, stderr, "who holds the lock")
			assert.Equal(t, "another holder", s.Get("job"))
		})
	}
}

// The message names the holder at the end of the wait, and not the one at its beginning.
func TestWaitThatGivesUpSaysWhoHoldsTheLockThen(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "job", clitest.Token("web-1"), "PX", 60000)
	p := clitest.Launch(t, s, "run", "-w", "3", "-ttl", "60", "job", "--", "true") // a node has 3 s: a busy machine is none that fails
	p.Warns("held by web-1")
	s.Do("SET", "job", clitest.Token("web-2"), "PX", 60000)
	assert.Equal(t, 1, p.Status())
	assert.Contains(t, p.Err(), "gave up \"job\" after 3s, held by web-2\n")
}

func TestFlagsMayStandBeforeAndAfterTheKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("MSET", "job", "another holder", "-job", "another holder")
	for _, args := range [][]string{
		{"run", "-n", "-E", "9", "--", "-job", "--", "true"},
		{"run", "-n", "-E", "9", "--", "-job", "another", "--", "sh", "-c", "true", "--"},
		{"run", "-n", "-E", "9", "job", "--", "true"},
		{"run", "job", "-n", "-E", "9", "--", "true"},
		{"run", "-E", "9", "job", "-n", "--", "true"},
		{"run", "-redis", s.URL(), "job", "-nonblock", "-E=9", "-ttl", "5", "--", "true"},
	} {
		clitest.RunEnds(t, 9, s, args...)
	}
}

func TestWaitSaysInOneLineForWhom(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := begun(t, s, lingering, "job")
	waiter := clitest.Launch(t, s, "run", "job", "--", "echo", "ran")
	waiter.Warns("\n")
	host, err := os.Hostname()
	require.NoError(t, err)
	want := fmt.Sprintf("redimutex: waiting for \"job\", held by %s pid %d: sh\n", host, holder.Cmd.Process.Pid)
	assert.Equal(t, want, waiter.Err())
	holder.Signal(15)
	assert.Equal(t, 0, waiter.Status())
	assert.Equal(t, "ran\n", waiter.Out())
	assert.Equal(t, want, waiter.Err(), "no line for each try")
	assert.Empty(t, holder.Notes())
}

func TestLabelOfAnotherClientCannotPlayWithTheTerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "job", clitest.Token("\x1b]0;evil\x07\nredimutex: all is well"), "PX", 60000)
	_, _, stderr := clitest.Run(t, s, "run", "-w", "2", "job", "--", "true")
	assert.Contains(t, stderr, "redimutex: waiting for \"job\", held by  ]0;evil  redimutex: all is well\n")
	assert.NotContains(t, stderr, "\x1b")
	assert.NotContains(t, stderr, "\nredimutex: all is well")
	_, out, _ := clitest.Run(t, s, "show", "job")
	assert.NotContains(t, out, "\x1b")
	assert.Equal(t, 1, strings.Count(out, "\n"))
}

func TestCommandHasOurStdinAndKnowsItsLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := clitest.Prepare(t, s, "run", "job", "--", "sh", "-c", `cat; echo "$REDIMUTEX_KEY"; echo "$REDIMUTEX_FENCE"`)
	p.Cmd.Stdin = strings.NewReader("one\ntwo\n")
	p.Cmd.Env = append(p.Cmd.Env, "REDIMUTEX_FENCE=of an outer lock", "REDIMUTEX_KEY=outer")
	p.Start()
	require.Equal(t, 0, p.Status(), p.Err())
	lines := strings.Split(p.Out(), "\n")
	require.Len(t, lines, 5)
	assert.Equal(t, []string{"one", "two", "job"}, lines[:3])
	_, second, _ := clitest.Run(t, s, "run", "job", "--", "sh", "-c", `echo "$REDIMUTEX_FENCE"`)
	first, err := redis.Int64([]byte(lines[3]), nil)
	require.NoError(t, err)
	next, err := redis.Int64([]byte(strings.TrimSpace(second)), nil)
	require.NoError(t, err)
	assert.Greater(t, next, first, "the fence rises")
}

func TestMinHoldKeepsTheLockAfterTheCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	clitest.RunEnds(t, 1, s, "run", "-min-hold", "60", "job", "another", "--", "false")
	for _, key := range []string{"job", "another"} {
		left := s.PTTL(key)
		assert.Greater(t, left, 15*time.Second, "the TTL alone would be 10 s")
		assert.LessOrEqual(t, left, time.Minute)
		out, _ := clitest.RunEnds(t, 9, s, "run", "-n", "-E", "9", key, "--", "echo", "ran")
		assert.Empty(t, out)
	}
}

// Otherwise no machine would run the job at all.
func TestMinHoldKeepsNothingForACommandThatNeverRan(t *testing.T) {
	s := redistest.Start(t)
	broken := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(broken, []byte("#!/there/is/no/such/interpreter\n"), 0o700))
	file := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(file, []byte{0, 1, 2, 3}, 0o700))
	for command, want := range map[string]int{"there-is-no-such-command": 127, broken: 127, file: 126} {
		for _, queue := range []string{"-q", "-queue"} {
			clitest.RunEnds(t, want, s, "run", queue, "-min-hold", "60", "job", "--", command)
			assert.NotContains(t, s.Keys(), "job", "%s %s", queue, command)
		}
	}
}

func TestACommandThatCannotStartGivesTheLockBackThoughStderrIsNotRead(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	broken := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(broken, []byte("#!/there/is/no/such/interpreter\n"), 0o700))
	p := clitest.Prepare(t, s, "run", "job", "--", broken)
	p.Cmd.Stderr = clitest.FullPipe(t)
	p.Start()
	assert.Equal(t, 127, p.Status())
	assert.NotContains(t, s.Keys(), "job")
}

func TestWhatTheCommandLeavesInTheBackgroundIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := clitest.Launch(t, s, "run", "job", "--", "sh", "-c", sleeper+"exit 3")
	assert.Equal(t, 3, p.Status())
	left := p.Prints(1)[0]
	assert.False(t, gone(left))
	require.NoError(t, syscall.Kill(left, syscall.SIGKILL))
	assert.NotContains(t, s.Keys(), "job")
}

// This is how flock(1) and env(1) find it.
func TestCommandIsFoundWithoutAPATH(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := clitest.Prepare(t, s, "run", "job", "--", "env")
	p.Cmd.Env = slices.DeleteFunc(p.Cmd.Env, func(e string) bool { return strings.HasPrefix(e, "PATH=") })
	p.Start()
	assert.Equal(t, 0, p.Status(), p.Err())
	assert.NotContains(t, p.Out(), "\nPATH=")
}

func TestKeyMayBeLongAndFullOfPercentSigns(t *testing.T) {
	t.Parallel()
	s, key := redistest.Start(t), strings.Repeat("%", 60000)
	out, _ := clitest.RunEnds(t, 0, s, "run", key, "--", "echo", "ran")
	assert.Equal(t, "ran\n", out)
	_, stderr := clitest.RunEnds(t, cli.CannotRun, s, "run", key+"1", key+"2", key+"3", "--", "echo", "ran")
	assert.Equal(t, "redimutex: can't run \"echo\": argument list too long; it gets all KEYs in its environment, and they are 180005 bytes: "+
		"lock fewer of them, or shorter ones\n", stderr)
	assert.Empty(t, s.Get(key+"1"))
}
