//go:build unix

package run

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestDeletedLockEndsTheGroupByTermThenKill(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := begun(t, s, deaf, "-ttl", "6", "-grace", "2", "job")
	pids := p.Prints(2)
	s.Do("DEL", "job")
	assert.Equal(t, 137, p.Status())
	assert.Contains(t, p.Out(), "TERM ")
	allGone(t, pids)
	assert.Equal(t, "redimutex: the lock \"job\" was lost: its key was deleted, or the server lost its data; "+
		"the command is sent TERM, and KILL in 2s\n", p.Notes())
	assert.NotContains(t, s.Keys(), "job")
}

func TestALossOfOneOfManyKeysNamesIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	keys := []string{"lost"}
	for i := range 100 {
		keys = append(keys, fmt.Sprintf("the key of an account with a long name, number %d", i))
	}
	p := begun(t, s, endless, append(keys, "-ttl", "4")...)
	s.Do("DEL", "lost")
	p.Status()
	assert.Contains(t, p.Notes(), `was lost: its key "lost" was deleted`)
	assert.Less(t, len(p.Notes()), 1000)
}

func TestCommandThatEndsByTermIsNotKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := begun(t, s, `trap "echo tidied up; exit 5" TERM; `+endless, "-ttl", "4", "-grace", "2", "job")
	s.Do("SET", "job", "another holder", "PX", 60000)
	assert.Equal(t, 5, p.Status())
	assert.Contains(t, p.Out(), "tidied up")
	assert.Contains(t, p.Notes(), "another client has overwritten its key")
	assert.Equal(t, 1, strings.Count(p.Notes(), "\n"), p.Notes())
	assert.Equal(t, "another holder", s.Get("job"), "the other's lock is left alone")
}

func TestStragglersAreKilledAfterTheCommandHasEnded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := begun(t, s, `sh -c 'trap "" TERM; echo "[$$]"; echo ready; sleep 1000' & wait`, "-ttl", "4", "job")
	s.Do("DEL", "job")
	assert.Equal(t, 143, p.Status(), "the command itself ends by TERM")
	allGone(t, p.Prints(1))
}

func TestNothingRunsOnWhenRenewalsFail(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const ttl = 3 * time.Second
	p := begun(t, s, deaf, "-ttl", ttl.String(), "-grace", "1.2", "job")
	pids := p.Prints(2)
	s.Pause()
	lateness, paused := redistest.MeasureLateness(), time.Now()
	assert.Equal(t, 137, p.Status())
	died := time.Now()
	late := lateness.Stop()
	s.Resume()
	allGone(t, pids) // KILL was sent to the group before redimutex ended
	// The last renewal was sent before the pause, so the validity ended by then. The machine decides how late this test
	// notices the end.
	assert.Less(t, died.Sub(paused), ttl+2*time.Second)
	_, stamp, found := strings.Cut(p.Out(), "TERM ")
	require.True(t, found, "TERM comes first")
	stamp, _, _ = strings.Cut(stamp, "\n")
	ns, err := strconv.ParseInt(stamp, 10, 64)
	require.NoError(t, err)
	assert.Greater(t, died.Sub(time.Unix(0, ns)), 600*time.Millisecond-late, "and leaves half of the grace at the very least")
	assert.Contains(t, p.Notes(), "can't be renewed, "+s.Addr()+"/0: no answer")
	assert.Equal(t, 1, strings.Count(p.Notes(), "\n"), p.Notes())
}

func TestCommandGoesOnWhenRenewalsFailOnlyForAWhile(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := begun(t, s, `trap "exit 42" USR1; `+endless, "-ttl", "6", "-grace", "1", "job")
	s.Pause()
	clitest.Pass(t, "a renewal to fail", 2500*time.Millisecond)
	s.Resume()
	token := s.Get("job")
	clitest.Pass(t, "the end of the first TTL", 5*time.Second)
	assert.Equal(t, token, s.Get("job"))
	p.Signal(syscall.SIGUSR1)
	assert.Equal(t, 42, p.Status())
	assert.Empty(t, p.Notes())
}

// The command ignores TERM, and the renewals work again. Then the key is deleted just before the command ends.
func TestALossAfterAWarningThatHasPassedIsTold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := begun(t, s, `trap "" TERM; trap "exit 42" USR1; `+endless, "-ttl", "12", "-grace", "6", "job")
	s.Pause()
	p.Warns("is sent TERM")
	s.Resume()
	renewed := func() bool { return s.PTTL("job") > 11500*time.Millisecond }
	redistest.Wait(t, "a renewal", renewed)
	redistest.Wait(t, "some time after it", func() bool { return !renewed() })
	redistest.Wait(t, "another one: redimutex knows of the first", renewed)
	redistest.Wait(t, "and the next moment without a look", func() bool {
		return s.PTTL("job") > 11*time.Second && s.Do("DEL", "job") == int64(1)
	})
	p.Signal(syscall.SIGUSR1)
	assert.Equal(t, 42, p.Status(), p.Err())
	assert.Contains(t, p.Notes(), "noticed only after the command had ended")
}

// A shell would end with its script, as if the user had sent TERM.
func TestACommandThatDiesOfOurWarningDoesNotTakeUsAlong(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := begun(t, s, `trap "" TERM; trap "trap - TERM; kill -TERM $$" USR1; `+endless, "-ttl", "12", "-grace", "6", "job")
	s.Pause()
	p.Warns("is sent TERM")
	s.Resume()
	redistest.Wait(t, "a renewal", func() bool { return s.PTTL("job") > 11500*time.Millisecond })
	p.Signal(syscall.SIGUSR1)
	assert.Equal(t, 143, p.Status(), p.Err())
	assert.Zero(t, p.DiedOf())
}

// A redimutex that was stopped can't end the command in time. It does so when it wakes up.
func TestWakingUpAfterTheLockIsOverKillsTheCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := begun(t, s, deaf, "-ttl", "3", "job")
	pids := p.Prints(2)
	p.Signal(syscall.SIGSTOP)
	redistest.Wait(t, "the end of the TTL", func() bool { return s.Get("job") == "" })
	p.Signal(syscall.SIGCONT)
	assert.Equal(t, 137, p.Status())
	assert.Contains(t, p.Notes(), `the lock "job" was lost: it expired`)
	allGone(t, pids)
}

// The kill must come in time even if no process reads stderr.
func TestBlockedStderrDoesNotDelayTheKill(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := clitest.Prepare(t, s, "run", "-ttl", "3", "job", "--", "sh", "-c", deaf)
	p.Cmd.Stderr = clitest.FullPipe(t)
	p.Start()
	p.Says("ready")
	s.Do("DEL", "job")
	assert.Equal(t, 137, p.Status())
}
