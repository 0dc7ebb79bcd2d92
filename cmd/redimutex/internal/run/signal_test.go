//go:build unix

package run

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestSignalsArePassedOnToTheCommand(t *testing.T) {
	s := redistest.Start(t)
	for name, number := range map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH, "ALRM": syscall.SIGALRM, "CONT": syscall.SIGCONT,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := begun(t, s, `trap "echo caught; exit 42" `+name+"; "+endless, name)
			p.Signal(number)
			assert.Equal(t, 42, p.Status())
			assert.Equal(t, "ready\ncaught\n", p.Out())
			assert.Empty(t, p.Notes())
			assert.NotContains(t, s.Keys(), name)
		})
	}
}

func TestSignalsReachTheWholeGroup(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := begun(t, s, sleeper+"echo ready; wait", "job")
	p.Signal(syscall.SIGTERM)
	assert.Equal(t, 143, p.Status())
	assert.Equal(t, syscall.SIGTERM, p.DiedOf(), "we die of the signal of which the command has died")
	assert.NotContains(t, s.Keys(), "job", "the lock was given back before")
	allGone(t, p.Prints(1))
}

func TestInterruptedWaitLeavesNothingBehind(t *testing.T) {
	s := redistest.Start(t)
	for _, number := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGALRM} {
		t.Run(number.String(), func(t *testing.T) {
			t.Parallel()
			key := number.String()
			s.Do("SET", key, "another holder")
			p := clitest.Launch(t, s, "run", key, "--", "echo", "ran")
			p.Warns("waiting for")
			p.Signal(number)
			assert.Equal(t, 128+int(number), p.Status())
			if number != syscall.SIGQUIT && number != syscall.SIGALRM { // the Go runtime does not simply die of these two
				assert.Equal(t, number, p.DiedOf(), "so that a script around it ends as well")
			}
			assert.Empty(t, p.Out())
			assert.Equal(t, 1, strings.Count(p.Notes(), "\n"), "nothing but that it waits")
			assert.Equal(t, "another holder", s.Get(key))
			s.Do("DEL", key)
			assert.NotContains(t, s.Keys(), key)
		})
	}
}

// The server executes the try that is under way at the signal later, or never.
func TestWaitInterruptedWhileTheServerHangsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for round := range 5 {
		key := fmt.Sprintf("job %d", round)
		s.Do("SET", key, "another holder")
		p := clitest.Launch(t, s, "run", "-ttl", "5", key, "--", "echo", "ran")
		p.Warns("waiting for")
		s.Do("DEL", key)
		s.Pause()
		p.Signal(syscall.SIGTERM)
		status := p.Status()
		s.Resume()
		if status == 0 || strings.Contains(p.Notes(), "can't give the lock") {
			// The run got the lock before the signal, and could not release it.
			s.Do("DEL", key)
			continue
		}
		assert.Equal(t, 143, status)
		assert.Empty(t, p.Out())
	}
	s.Do("PING") // the server has read everything that was sent before
	for _, key := range s.Keys() {
		assert.False(t, strings.HasPrefix(key, "job"), "%s; a fence may be left of a lock that it had for a moment", key)
	}
}

func TestOtherSignalsDoNotEndTheWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "job", "another holder")
	p := clitest.Launch(t, s, "run", "job", "--", "echo", "ran")
	p.Warns("waiting for")
	for _, number := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT} {
		p.Signal(number)
	}
	s.Do("PEXPIRE", "job", 300) // not at once: a signal that comes as the command starts is for the command
	assert.Equal(t, 0, p.Status())
	assert.Equal(t, "ran\n", p.Out())
}

// nohup works because its command ignores HUP.
func TestSignalThatOurParentIgnoresStaysIgnored(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := clitest.Prepare(t, s, "run", "job", "--", "sh", "-c", `trap "exit 42" USR1; `+endless)
	p.Cmd = wrapped(p.Cmd, `trap "" HUP; exec "$@"`)
	p.Start()
	p.Says("ready")
	p.Signal(syscall.SIGHUP)
	p.Signal(syscall.SIGUSR1)
	assert.Equal(t, 42, p.Status())
}

// wrapped returns a command that is run by a script.
func wrapped(c *exec.Cmd, script string) *exec.Cmd {
	w := exec.Command("sh", append([]string{"-c", script, "sh"}, c.Args...)...)
	w.Env, w.Stdout, w.Stderr, w.SysProcAttr = c.Env, c.Stdout, c.Stderr, c.SysProcAttr
	return w
}

func TestTheWholeGroupDiesWithUsWhateverKillsUs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := clitest.Launch(t, s, "run", "job", "--", "sh", "-c", `sh -c 'trap "" TERM; echo "[$$]"; sleep 1000' & echo "[$$]"; `+endless)
	pids := p.Prints(2)
	p.Signal(syscall.SIGKILL)
	p.Status()
	allGone(t, pids)
	assert.Contains(t, s.Keys(), "job", "the lock stays until its TTL is over")
}

// The command kills redimutex as its first action. If the guard heard of the command only after its start, it would come too
// late in one case of five.
func TestTheCommandDiesWithUsFromItsFirstMomentOn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for range 20 {
		p := clitest.Launch(t, s, "run", "-permits", "100", "job", "--", "sh", "-c", `echo "[$$]"; kill -KILL $PPID; exec sleep 1000`)
		p.Status()
		allGone(t, p.Prints(1))
	}
}

// The inner command is in another group than the outer one.
func TestNestedRunsEndWithTheOuterLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	self := clitest.Self(t)
	const script = `trap "" TERM; sh -c 'trap "" TERM; echo "[$$]"; sleep 1000' & echo "[$$]"; ` + endless
	p := clitest.Launch(t, s, "run", "-ttl", "6", "-grace", "0.5", "outer", "--", self, "run", "middle", "--", self, "run", "inner", "--", "sh", "-c", script)
	pids := p.Prints(2)
	s.Do("DEL", "outer")
	assert.Equal(t, 137, p.Status(), p.Err())
	allGone(t, pids)
}

// COMMAND ends by TERM. Its process in the background does not, and only the inner run knows of that process.
func TestWhatANestedCommandLeavesBehindEndsWithTheOuterLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := clitest.Launch(t, s, "run", "-ttl", "6", "-grace", "0.5", "outer", "--", clitest.Self(t), "run", "inner", "--", "sh", "-c",
		`sh -c 'trap "" TERM; echo "[$$]"; sleep 1000' & wait`)
	pids := p.Prints(1)
	s.Do("DEL", "outer")
	assert.Equal(t, 137, p.Status(), p.Err())
	allGone(t, pids)
}

func TestStoppedCommandKeepsTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := begun(t, s, `echo "[$$]"; trap "exit 42" USR1; `+endless, "-ttl", "4", "job")
	pid := p.Prints(1)[0]
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	token := s.Get("job")
	clitest.Pass(t, "the end of the first TTL", 5*time.Second)
	assert.Equal(t, token, s.Get("job"))
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	p.Signal(syscall.SIGUSR1)
	assert.Equal(t, 42, p.Status())
}
