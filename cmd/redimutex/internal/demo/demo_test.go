//go:build unix

package demo

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A demoProcess is a demo in its own process. Its standard error, which its workers share, is a pipe that ends when all of
// them have ended.
type demoProcess struct {
	*clitest.Process
	stderr *os.File
	said   string // what came through the pipe, once all have ended
	temp   string // where it puts its files
}

// startDemo starts a demo. Its output goes to a file of the process, or to stdout if that is not nil.
func startDemo(t *testing.T, stdout *os.File, args ...string) *demoProcess {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { read.Close() })
	p := &demoProcess{Process: clitest.Prepare(t, nil, append([]string{"demo"}, args...)...), stderr: read, temp: t.TempDir()}
	p.Cmd.Env, p.Cmd.Stderr = append(p.Cmd.Env, "TMPDIR="+p.temp), write
	if stdout != nil {
		p.Cmd.Stdout = stdout
	}
	p.Start()
	require.NoError(t, write.Close())
	return p
}

// leavesNoFile checks that a demo that has ended has left nothing in its folder.
func (p *demoProcess) leavesNoFile(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(p.temp)
	require.NoError(t, err)
	assert.Empty(t, left, "files left behind")
}

// end waits until the demo and all its workers have ended, and returns the exit status.
func (p *demoProcess) end(t *testing.T) int {
	t.Helper()
	status := p.Status()
	require.NoError(t, p.stderr.SetReadDeadline(time.Now().Add(20*time.Second)))
	said, err := io.ReadAll(p.stderr)
	require.NoError(t, err, "a worker outlived the demo")
	p.said += string(said)
	return status
}

// again starts a demo until one is good. The rounds of a demo are bounded, so on a busy machine a round may not end in time.
// But updates are never lost.
func again(t *testing.T, args []string, good func(p *demoProcess) bool) *demoProcess {
	t.Helper()
	var late time.Duration
	for range 5 {
		lateness := redistest.MeasureLateness()
		p := startDemo(t, nil, args...)
		is := good(p)
		late += lateness.Stop()
		if is {
			return p
		}
		p.end(t)
		require.NotContains(t, p.said, errLostUpdates.Error(), p.Out())
		t.Logf("again: the machine was late by %v until now: %s", late, p.said)
	}
	require.Greater(t, late, 5*time.Second, "five demos have failed, and not for the machine")
	t.Skip("the machine is too busy for the time that the demo has")
	return nil
}

// demoAt returns a demo that has begun a round.
func demoAt(t *testing.T, round string, args ...string) *demoProcess {
	t.Helper()
	return again(t, args, func(p *demoProcess) bool {
		redistest.Wait(t, "the demo comes to "+round, func() bool { return strings.Contains(p.Out(), round) || p.Ended() })
		return strings.Contains(p.Out(), round)
	})
}

func TestDemoLosesUpdatesWithoutTheLockAndNoneWithIt(t *testing.T) {
	t.Parallel()
	p := again(t, nil, func(p *demoProcess) bool { return p.end(t) == cli.OK })

	r := regexp.MustCompile(`(?m)^\d\. `).Split(p.Out(), -1)[1:]
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
	assert.NotContains(t, p.Out(), "\x1b", "it is not a terminal")
	assert.Empty(t, p.said)
	p.leavesNoFile(t)
}

func TestDemoFailsWhenAnUpdateIsLostUnderTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := demoAt(t, "\n2. ", "-redis", s.URL())

	// A process that deletes the lock all the time lets several workers in together.
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
	assert.Equal(t, cli.Failure, status, p.Out())
	assert.Contains(t, p.said, "updates were lost under the lock")
}

func TestDemoNeverShowsThePasswordOfItsServerAndLeavesNoKey(t *testing.T) {
	t.Parallel()
	const password = "correct-horse"
	s := redistest.Real(t, "--requirepass", password)
	file := filepath.Join(t.TempDir(), "url")
	require.NoError(t, os.WriteFile(file, []byte("redis://:"+password+"@"+s.Addr()), 0o600))
	p := demoAt(t, "\n1. ", "-redis", "@"+file)
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, name := range lines {
		line, _ := os.ReadFile(name) // the process may be gone
		if bytes.Contains(line, []byte(workerVerb)) {
			assert.NotContains(t, string(line), password)
		}
	}
	p.Says("\n2. ")
	p.Signal(syscall.SIGTERM)
	p.end(t)
	assert.NotContains(t, p.Out()+p.said, password)
	assert.Contains(t, p.Out(), s.Addr())

	c := s.Pool(redis.DialPassword(password)).Get()
	defer c.Close()
	keys, err := c.Do("KEYS", "*")
	require.NoError(t, err)
	assert.Empty(t, keys)
}

func TestDemoWhoseServerDiesSaysSoAndBlamesNotTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := demoAt(t, "\n2. ", "-redis", s.URL())
	s.Kill()
	assert.Equal(t, cli.Unavailable, p.end(t), p.Out())
	assert.Contains(t, p.said, s.Addr())
}

func TestAReleaseThatIsLateDoesNotEndTheDemo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	front := redistest.NewFront(t, s)
	var slow atomic.Bool
	front.On(func([]string) redistest.Fate {
		if len(s.Keys()) > 0 && !slow.Swap(true) { // the next command is the release
			return redistest.Fate{Delay: lockTTL}
		}
		return redistest.Fate{}
	})
	d, err := openServer(servers.URLs{"redis://" + front.Addr()})
	require.NoError(t, err)
	defer d.close()
	require.NoError(t, d.probe(t.Context()))
	assert.True(t, slow.Load())
}

func TestInterruptedDemoLeavesNothingBehind(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := demoAt(t, "\n2. ", "-redis", s.URL())
			redistest.Wait(t, "the lock is in use", func() bool { return len(s.Keys()) > 0 })
			p.Signal(sig)
			assert.Equal(t, 128+int(sig), p.end(t))
			assert.Empty(t, s.Keys())
			p.leavesNoFile(t)
		})
	}
}

// A terminal sends QUIT to all processes, and a Go program that does not catch it prints all its stacks.
func TestCtrlBackslashEndsTheDemoWithoutTheStacksOfItsWorkers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := demoAt(t, "\n2. ", "-redis", s.URL())
	owners := make(map[string]bool)
	redistest.Wait(t, "all workers are at work", func() bool {
		for _, key := range s.Keys() {
			if _, owner, named := strings.Cut(s.Get(key), " "); named {
				owners[owner] = true
			}
		}
		return len(owners) == workerCount
	})
	require.NoError(t, syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGQUIT))
	assert.Equal(t, 128+int(syscall.SIGQUIT), p.end(t))
	assert.Equal(t, "redimutex demo: ended by quit\n", p.said)
}

// The reader leaves when it has read enough, as head does.
func TestADemoWhoseReaderLeavesLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	p := startDemo(t, write)
	require.NoError(t, write.Close())
	_, err = read.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, read.Close())
	assert.Equal(t, cli.WriteError, p.end(t))
	p.leavesNoFile(t)
}

func TestWorkersEndWhenTheDemoIsKilled(t *testing.T) {
	t.Parallel()
	p := demoAt(t, "\n1. ")
	p.Signal(syscall.SIGKILL)
	p.end(t)
}

func TestDemoSaysWhatIsWrongWithItsArgumentsAtOnce(t *testing.T) {
	t.Parallel()
	clitest.Misuse(t, cli.UsageError, map[string][]string{
		"does not begin with redis://": {"demo", "-redis", "http://user:hunter2@host"},
	})
	clitest.Misuse(t, cli.Unavailable, map[string][]string{
		"127.0.0.1": {"demo", "-redis", "redis://:hunter2@" + redistest.FreeAddr(t)},
	})
}
