//go:build unix

package main

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

// deaf is a script that does not end by TERM, and neither does the process that it starts.
const deaf = `trap 'echo "TERM $(date +%s%N)"' TERM
sh -c 'trap "" TERM; echo "[$$]"; sleep 1000' &
echo "[$$]"
` + endless

func TestDeletedLockEndsTheGroupByTermThenKill(t *testing.T) {
	s := redistest.Start(t)
	p := launch(t, s, "run", "-ttl", "1.5", "-grace", "0.7", "job", "--", "sh", "-c", deaf)
	p.says("ready")
	redistest.Wait(t, "the process in the background", func() bool { return len(p.printed()) == 2 })
	s.Do("DEL", "job")
	assert.Equal(t, 137, p.status())
	assert.Contains(t, p.out(), "TERM ")
	for _, pid := range p.printed() {
		redistest.Wait(t, "the end of the group", func() bool { return gone(pid) })
	}
	assert.Equal(t, "redimutex: the lock \"job\" was lost: its key was deleted, or the server lost its data; "+
		"the command is sent TERM, and KILL in 700ms\n", p.notes())
	assert.NotContains(t, s.Keys(), "job")
}

func TestCommandThatEndsByTermIsNotKilled(t *testing.T) {
	s := redistest.Start(t)
	p := launch(t, s, "run", "-ttl", "4", "-grace", "2", "job", "--", "sh", "-c", `trap "echo tidied up; exit 5" TERM; `+endless)
	p.says("ready")
	s.Do("SET", "job", "somebody else", "PX", 60000)
	assert.Equal(t, 5, p.status())
	assert.Contains(t, p.out(), "tidied up")
	assert.Contains(t, p.notes(), "somebody else has overwritten its key")
	assert.Equal(t, 1, strings.Count(p.notes(), "\n"), p.notes())
	assert.Equal(t, "somebody else", s.Get("job"), "the other's lock is left alone")
}

func TestStragglersAreKilledAfterTheCommandHasEnded(t *testing.T) {
	s := redistest.Start(t)
	p := launch(t, s, "run", "-ttl", "1", "job", "--", "sh", "-c",
		`sh -c 'trap "" TERM; echo "[$$]"; echo ready; sleep 1000' & wait`)
	p.says("ready")
	s.Do("DEL", "job")
	assert.Equal(t, 143, p.status(), "the command itself ends by TERM")
	pids := p.printed()
	require.Len(t, pids, 1)
	redistest.Wait(t, "the end of the process that ignores TERM", func() bool { return gone(pids[0]) })
}

func TestNothingRunsOnWhenRenewalsFail(t *testing.T) {
	s := redistest.Real(t)
	const ttl = 3 * time.Second
	p := launch(t, s, "run", "-ttl", ttl.String(), "-grace", "1.2", "job", "--", "sh", "-c", deaf)
	p.says("ready")
	redistest.Wait(t, "the process in the background", func() bool { return len(p.printed()) == 2 })
	s.Pause()
	paused := time.Now()
	assert.Equal(t, 137, p.status())
	died := time.Now()
	s.Resume()
	for _, pid := range p.printed() {
		assert.True(t, gone(pid), "the whole group is dead before redimutex ends")
	}
	// The last renewal was sent before the pause, so the validity ended by then. How late our look at the
	// end may be depends on the machine.
	assert.Less(t, died.Sub(paused), ttl+2*time.Second)
	_, stamp, found := strings.Cut(p.out(), "TERM ")
	require.True(t, found, "TERM comes first")
	stamp, _, _ = strings.Cut(stamp, "\n")
	ns, err := strconv.ParseInt(stamp, 10, 64)
	require.NoError(t, err)
	assert.Greater(t, died.Sub(time.Unix(0, ns)), 600*time.Millisecond, "and leaves half of the grace at the very least")
	assert.Contains(t, p.notes(), "can't be renewed, "+s.Addr()+": no answer in time; the command is sent TERM")
	assert.Equal(t, 1, strings.Count(p.notes(), "\n"), p.notes())
}

func TestCommandGoesOnWhenRenewalsFailOnlyForAWhile(t *testing.T) {
	s := redistest.Real(t)
	p := launch(t, s, "run", "-ttl", "6", "-grace", "1", "job", "--", "sh", "-c", `trap "exit 42" USR1; `+endless)
	p.says("ready")
	s.Pause()
	resume := time.Now().Add(2500 * time.Millisecond)
	redistest.Wait(t, "a renewal to fail", func() bool { return time.Now().After(resume) })
	s.Resume()
	token := s.Get("job")
	later := time.Now().Add(5 * time.Second)
	redistest.Wait(t, "the end of the first TTL", func() bool { return time.Now().After(later) })
	assert.Equal(t, token, s.Get("job"))
	p.signal(syscall.SIGUSR1)
	assert.Equal(t, 42, p.status())
	assert.Empty(t, p.notes())
}

// A redimutex that was stopped can't end the command in time. It makes up for that when it wakes up.
func TestWakingUpAfterTheLockIsOverKillsTheCommand(t *testing.T) {
	s := redistest.Start(t)
	p := launch(t, s, "run", "-ttl", "1", "job", "--", "sh", "-c", deaf)
	p.says("ready")
	redistest.Wait(t, "the process in the background", func() bool { return len(p.printed()) == 2 })
	p.signal(syscall.SIGSTOP)
	redistest.Wait(t, "the end of the TTL", func() bool { return s.Get("job") == "" })
	p.signal(syscall.SIGCONT)
	assert.Equal(t, 137, p.status())
	assert.Contains(t, p.notes(), `the lock "job" was lost: it expired`)
	for _, pid := range p.printed() {
		redistest.Wait(t, "the end of the group", func() bool { return gone(pid) })
	}
}

// Killing in time must not wait for somebody who does not read our stderr.
func TestBlockedStderrDoesNotDelayTheKill(t *testing.T) {
	s := redistest.Start(t)
	p := prepare(t, s, "run", "-ttl", "1", "job", "--", "sh", "-c", deaf)
	full := fullPipe(t)
	out := p.cmd.Stdout
	p.cmd.Stderr = full
	p.start()
	redistest.Wait(t, "the command", func() bool { return strings.Contains(p.read(out), "ready") })
	s.Do("DEL", "job")
	assert.Equal(t, 137, p.status())
}
