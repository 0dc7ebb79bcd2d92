//go:build linux

package run

import (
	"os"
	"os/exec"
	"path/filepath"
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

// A program that was built as users build it, because the binary of a test has no table of symbols.
func TestSignalsThatOurParentIgnoresStayIgnored(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs go, to build the program")
	}
	program := filepath.Join(t.TempDir(), "redimutex")
	s := redistest.Start(t)
	for _, mode := range []string{"exe", "pie"} {
		out, err := exec.Command(tool, "build", "-buildmode="+mode, "-ldflags=-w", "-o", program, "github.com/redimutex/redimutex/cmd/redimutex").CombinedOutput()
		if err != nil && mode == "pie" {
			continue // it may need a linker that is not here
		}
		require.NoError(t, err, string(out))
		p := clitest.Prepare(t, s)
		env := p.Cmd.Env
		for script, want := range map[string]uint64{
			`exec "$@"`: 0,
			`trap "" HUP INT QUIT TERM USR1 USR2 PIPE TSTP ALRM; exec "$@"`: 1<<0 | 1<<1 | 1<<2 | 1<<14 | 1<<9 | 1<<11 | 1<<12 | 1<<19 | 1<<13,
			`(trap "" TERM; exec "$@")`:                                     1 << 14,
		} {
			c := exec.Command("sh", "-c", script, "sh", program, "run", "job", "--", "grep", "SigIgn", "/proc/self/status")
			c.Env = env
			out, err := c.CombinedOutput()
			require.NoError(t, err, string(out))
			mask, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(string(out), "SigIgn:")), 16, 64)
			require.NoError(t, err, string(out))
			const theirs = 1<<0 | 1<<1 | 1<<2 | 1<<14 | 1<<9 | 1<<11 | 1<<12 | 1<<19 | 1<<13
			assert.Equal(t, want, mask&theirs, "%s, %s", mode, script)
		}
	}
}

// As PID 1 of a container does; here we are made the one that orphans go to.
func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := clitest.Prepare(t, s, "run", "job", "--", "sh", "-c", `sh -c 'sleep 0.1 & echo "[$!]"'; echo ready; exec sleep 1000`)
	p.Cmd.Env = append(p.Cmd.Env, "REDIMUTEX_TEST_REAPER=1")
	p.Start()
	p.Says("ready")
	orphan := p.Printed()[0]
	redistest.Wait(t, "no zombie of the orphan", func() bool { return syscall.Kill(orphan, 0) == syscall.ESRCH })
	p.Signal(syscall.SIGTERM)
	assert.Equal(t, 143, p.Status())
}

// What is dead, and only has to be reaped, is no reason to wait for the end of the grace.
func TestLossDoesNotWaitForTheDead(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := clitest.Prepare(t, s, "run", "-ttl", "30", "-grace", "15", "job", "--", "sh", "-c",
		`sh -c 'sleep 1000 & echo "[$!]"'; echo ready; exec sleep 1000`)
	p.Cmd.Env = append(p.Cmd.Env, "REDIMUTEX_TEST_REAPER=1")
	p.Start()
	p.Says("ready")
	s.Do("DEL", "job") // found by the next renewal, after a third of the TTL at the latest
	p.Warns("sent TERM")
	began := time.Now()
	assert.Equal(t, 143, p.Status())
	assert.Less(t, time.Since(began), 12*time.Second)
}

func TestZombiesAreNotAlive(t *testing.T) {
	c := exec.Command("sleep", "1000")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, c.Start())
	defer c.Wait() //nolint:errcheck // it was killed
	g := &group{id: c.Process.Pid}
	assert.True(t, g.alive())
	require.NoError(t, syscall.Kill(c.Process.Pid, syscall.SIGKILL))
	stat := "/proc/" + strconv.Itoa(c.Process.Pid) + "/stat"
	redistest.Wait(t, "a zombie", func() bool {
		content, err := os.ReadFile(stat)
		return err == nil && strings.Contains(string(content), ") Z ")
	})
	require.NoError(t, syscall.Kill(-c.Process.Pid, 0), "the kernel still knows the group")
	assert.False(t, g.alive())
}
