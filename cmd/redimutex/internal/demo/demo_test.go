package demo

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A demoProcess is a demo that runs as a process of its own.
type demoProcess struct {
	*exec.Cmd
	out, err transcript
	temp     string // where it puts its files
}

// startDemo starts a demo. It and its workers are told apart from other processes by their standard
// error: all have it, so Wait returns an error if one of them lives on.
func startDemo(t *testing.T, args ...string) *demoProcess {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &demoProcess{Cmd: exec.Command(self, append([]string{"demo"}, args...)...), temp: t.TempDir()}
	p.Env = append(os.Environ(), "REDIMUTEX_TEST_MAIN=1", "TMPDIR="+p.temp)
	p.Stdout, p.Stderr = &p.out, &p.err
	p.WaitDelay = 20 * time.Second
	require.NoError(t, p.Start())
	t.Cleanup(func() { p.Process.Kill() })
	return p
}

// end waits until the demo and all its workers have ended, and returns the exit status.
func (p *demoProcess) end(t *testing.T) int {
	t.Helper()
	err := p.Wait()
	require.NotErrorIs(t, err, exec.ErrWaitDelay, "a worker outlived the demo")
	if status := p.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal()) // as a shell has it
	}
	return p.ProcessState.ExitCode()
}

// A transcript collects what a process prints.
type transcript struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *transcript) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *transcript) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// rounds returns what was said of each round.
func (b *transcript) rounds() []string {
	return regexp.MustCompile(`(?m)^\d\. `).Split(b.String(), -1)[1:]
}

func TestDemoLosesUpdatesWithoutTheLockAndNoneWithIt(t *testing.T) {
	t.Parallel()
	p := startDemo(t)
	require.Equal(t, cli.OK, p.end(t), "%s\n%s", &p.out, &p.err)

	r := p.out.rounds()
	require.Len(t, r, 3)
	assert.Regexp(t, `the counter says \d+: \d+ (was|were) lost`, r[0])
	assert.Contains(t, r[1], "no update was lost")
	assert.Contains(t, r[2], "no update was lost")
	assert.Regexp(t, `Worker \d was killed at`, r[2])
	assert.Regexp(t, `Worker \d got the lock \d\.\d\d s later`, r[2])
	for _, with := range r[1:] {
		assert.Contains(t, with, "never more than one goroutine in the critical section")
		assert.NotContains(t, with, "at once")
	}
	assert.NotContains(t, p.out.String(), "\x1b", "it is not a terminal")
	assert.Empty(t, p.err.String())

	left, err := os.ReadDir(p.temp)
	require.NoError(t, err)
	assert.Empty(t, left, "files left behind")
}

func TestDemoFailsWhenAnUpdateIsLostUnderTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startDemo(t, "-redis", s.URL())

	redistest.Wait(t, "round two", func() bool { return strings.Contains(p.out.String(), "\n2. ") })

	// A process that deletes the lock all the time lets several workers in at once.
	stop := make(chan struct{})
	var saboteur sync.WaitGroup
	saboteur.Go(func() {
		c := s.Pool().Get()
		defer c.Close()
		for {
			select {
			case <-stop:
				return
			default:
			}
			c.Do("EVAL", "local keys = redis.call('KEYS', 'demo:*') for _, k in ipairs(keys) do redis.call('DEL', k) end", 0)
		}
	})
	status := p.end(t)
	close(stop)
	saboteur.Wait()
	assert.Equal(t, cli.Failure, status, "%s", &p.out)
	assert.Contains(t, p.err.String(), "updates were lost under the lock")
}

func TestDemoShowsItsServersPasswordToNobodyAndLeavesNoKey(t *testing.T) {
	t.Parallel()
	const password = "correct-horse"
	s := redistest.Real(t, "--requirepass", password)
	file := filepath.Join(t.TempDir(), "url")
	require.NoError(t, os.WriteFile(file, []byte("redis://:"+password+"@"+s.Addr()), 0o600))
	p := startDemo(t, "-redis", "@"+file)
	redistest.Wait(t, "the demo has begun", func() bool { return strings.Contains(p.out.String(), "\n1. ") })
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, name := range lines {
		line, _ := os.ReadFile(name) // the process may be gone
		if bytes.Contains(line, []byte("-"+workerFlag)) {
			assert.NotContains(t, string(line), password)
		}
	}
	redistest.Wait(t, "the lock is in use", func() bool { return strings.Contains(p.out.String(), "\n2. ") })
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	p.end(t)
	assert.NotContains(t, p.out.String()+p.err.String(), password)
	assert.Contains(t, p.out.String(), s.Addr())

	c := s.Pool().Get()
	defer c.Close()
	_, err = c.Do("AUTH", password)
	require.NoError(t, err)
	keys, err := c.Do("KEYS", "*")
	require.NoError(t, err)
	assert.Empty(t, keys)
}

func TestDemoWhoseServerDiesSaysSoAndBlamesNotTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startDemo(t, "-redis", s.URL())
	redistest.Wait(t, "round two", func() bool { return strings.Contains(p.out.String(), "\n2. ") })
	s.Kill()
	assert.Equal(t, cli.Unavailable, p.end(t), "%s", &p.out)
	assert.Contains(t, p.err.String(), s.Addr())
}

func TestInterruptedDemoLeavesNothingBehind(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := startDemo(t, "-redis", s.URL())
			redistest.Wait(t, "the lock is in use", func() bool { return len(s.Keys()) > 0 && strings.Contains(p.out.String(), "\n2. ") })
			require.NoError(t, p.Process.Signal(sig))
			assert.Equal(t, 128+int(sig), p.end(t))
			assert.Empty(t, s.Keys())
			left, err := os.ReadDir(p.temp)
			require.NoError(t, err)
			assert.Empty(t, left, "files left behind")
		})
	}
}

func TestWorkersEndWhenTheDemoIsKilled(t *testing.T) {
	t.Parallel()
	p := startDemo(t)
	redistest.Wait(t, "the demo has begun", func() bool { return strings.Contains(p.out.String(), "\n1. ") })
	require.NoError(t, p.Process.Kill())
	p.end(t)
}

func TestDemoSaysWhatIsWrongWithItsArgumentsAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		status int
		words  string
	}{
		"unknown flag": {[]string{"-x"}, cli.UsageError, "-x"},
		"argument":     {[]string{"twice"}, cli.UsageError, "no arguments"},
		"bad URL":      {[]string{"-redis", "http://user:secret@host"}, cli.UsageError, "scheme"},
		"no server":    {[]string{"-redis", "redis://:secret@" + redistest.FreeAddr(t)}, cli.Unavailable, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, stderr := clitest.Call(append([]string{"demo"}, c.args...)...)
			assert.Equal(t, c.status, status)
			assert.Contains(t, stderr, c.words)
			assert.NotContains(t, stderr, "secret")
			assert.Empty(t, out)
		})
	}
}

func TestCounterIsNeverHalfWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "counter")
	writer, err := openCounter(path)
	require.NoError(t, err)
	defer writer.close()
	reader, err := openCounter(path)
	require.NoError(t, err)
	defer reader.close()
	require.NoError(t, writer.write(0))
	ctx, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	busy.Go(func() {
		for n := 0; ctx.Err() == nil; n = 99999999 - n {
			if writer.write(n) != nil {
				return
			}
		}
	})
	for range 20000 {
		n, err := reader.read()
		require.NoError(t, err)
		require.Contains(t, []int{0, 99999999}, n)
	}
	stop()
	busy.Wait()
}
