//go:build linux

package run

import (
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

// The Go runtime leaves these two as they are. Of others it does not tell whether they were ignored.
func TestHangupAndInterruptThatOurParentIgnoresStayIgnored(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for script, want := range map[string]uint64{
		`exec "$@"`:                  0,
		`trap "" HUP; exec "$@"`:     1 << 0,
		`trap "" INT; exec "$@"`:     1 << 1,
		`trap "" HUP INT; exec "$@"`: 1<<0 | 1<<1,
	} {
		p := clitest.Prepare(t, s, "run", "job", "--", "grep", "SigIgn", "/proc/self/status")
		p.Cmd = wrapped(p.Cmd, script)
		p.Start()
		require.Equal(t, 0, p.Status(), p.Err())
		mask, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(p.Out(), "SigIgn:")), 16, 64)
		require.NoError(t, err, p.Out())
		const ours = 1<<0 | 1<<1 | 1<<2 | 1<<14 | 1<<9 | 1<<11 | 1<<12 | 1<<19 | 1<<13 | 1<<20 | 1<<21
		assert.Equal(t, want, mask&ours, script)
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
