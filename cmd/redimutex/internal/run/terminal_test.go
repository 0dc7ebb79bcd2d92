//go:build linux

package run

import (
	"os"
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

func TestCommandReadsFromTheTerminalAndTheShellGetsItBack(t *testing.T) {
	t.Parallel()
	// A subshell does not take the terminal back by itself, unlike a shell with job control.
	y := clitest.SitDown(t, redistest.Start(t), "",
		`( RUN sh -c 'echo ready; read x; echo "got $x"'; echo next; read y; echo "then $y"; exit 7 )`)
	y.Type("one\n")
	y.Says("got one")
	y.Says("next")
	y.Type("two\n")
	y.Says("then two")
	assert.Equal(t, 7, y.Status())
}

func TestCommandInAPipelineReadsFromTheTerminal(t *testing.T) {
	t.Parallel()
	y := clitest.SitDown(t, redistest.Start(t), "", `RUN sh -c 'echo ready; read x; echo "got $x"' | cat; echo "status ${PIPESTATUS[0]}"`)
	y.Type("one\n")
	y.Says("got one")
	y.Says("status 0")
}

// A shell with job control ignores TTIN in $( ). If the command inherited that, its read would fail.
func TestCommandInASubstitutionReadsFromTheTerminal(t *testing.T) {
	t.Parallel()
	y := clitest.SitDown(t, redistest.Start(t), "", `x=$(RUN sh -c 'echo ready >/dev/tty; read x; echo "got $x"'); echo "x: $x"`)
	y.Type("one\n")
	y.Says("x: got one")
	assert.Equal(t, 0, y.Status())
}

func TestCommandThatIsStoppedAtTheTerminalGoesOnWithItsLock(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]string{"one run": `RUN`, "nested runs": `RUN "PROGRAM" run -ttl 60 inner --`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := clitest.SitDown(t, redistest.Start(t), "-ttl 60", run+` sh -c 'echo ready; read x; echo "got $x"'; echo "stopped $?"; fg; echo "status $?"`)
			y.Type(clitest.CtrlZ)
			y.Says("stopped 1") // 128 and the signal
			y.Type("one\n")
			y.Says("got one")
			y.Says("status 0")
		})
	}
}

func TestCommandThatIsStoppedForTooLongDoesNotRunOn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	gate := filepath.Join(t.TempDir(), "gate")
	y := clitest.SitDown(t, s, "-ttl 3", `RUN sh -c 'echo ready; read x; echo ran on'; echo "stopped $?"; until test -e "`+gate+`"; do sleep 0.05; done; fg; echo "status $?"`)
	y.Type(clitest.CtrlZ)
	y.Says("stopped 1")
	redistest.Wait(t, "the end of the TTL", func() bool { return s.Get("job") == "" })
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	y.Type("one\n")
	y.Says("status 137")
	assert.Contains(t, y.Out(), "it expired")
	assert.NotContains(t, strings.ReplaceAll(y.Out(), "echo ran on", ""), "ran on")
}

// An editor that gets KILL leaves the terminal like this.
func TestALossLeavesTheTerminalAsItWas(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	y := clitest.SitDown(t, s, "", `RUN sh -c 'stty -icanon -echo; echo ready; exec sleep 1000'; echo "status $?"; stty -a | grep -o -e '-*icanon'`)
	s.Do("DEL", "job")
	y.Says("status 143")
	assert.Equal(t, 0, y.Status())
	assert.NotContains(t, y.Out(), "-icanon\r")
	assert.Contains(t, y.Out(), "icanon\r")
}

// Without a shell that could continue redimutex, as under ssh -t, a stop would last for ever.
func TestCtrlZWithoutAShellIsHarmless(t *testing.T) {
	t.Parallel()
	y := clitest.SitDown(t, redistest.Start(t), "",
		`exec RUN sh -c 'trap "echo woken" CONT; echo ready; until read x && test "$x" = one; do :; done; echo "got $x"'`)
	y.Type(clitest.CtrlZ)
	y.Says("woken")
	y.Type("one\n")
	y.Says("got one")
	assert.Equal(t, 0, y.Status())
}

// Without redimutex in between, Ctrl-C reaches all of the processes. A process may trap it.
func TestCtrlCEndsTheScriptAroundUsAsWell(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"bash":    `exec bash -c 'PROGRAM run build -- sh -c "echo ready; exec sleep 1000"; echo deployed'`,
		"sh":      `exec sh -c 'PROGRAM run build -- sh -c "echo ready; exec sleep 1000"; echo deployed'`,
		"a loop":  `exec bash -c 'while :; do PROGRAM run build -- sh -c "echo ready; exec sleep 1000"; echo deployed; done'`,
		"waiting": `exec bash -c 'PROGRAM run held -- true; echo deployed'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			s.Do("SET", "held", clitest.Token("web-1"))
			y := clitest.Shell(t, s, "", nil, script)
			if name == "waiting" {
				y.Says("web-1")
			} else {
				y.Says("ready")
			}
			y.Type(clitest.CtrlC)
			assert.Equal(t, 130, y.Status(), y.Out())
			assert.NotContains(t, y.Out(), "deployed")
			assert.NotContains(t, s.Keys(), "build", "the lock was given back")
		})
	}
}

func TestCommandThatCatchesCtrlCDoesNotEndTheScript(t *testing.T) {
	t.Parallel()
	y := clitest.Shell(t, redistest.Start(t), "", nil, `exec bash -c 'PROGRAM run build -- sh -c "trap \"exit 3\" INT; echo ready; read x"; echo "went on after $?"'`)
	y.Says("ready")
	y.Type(clitest.CtrlC)
	y.Says("went on after 3")
}

// The Go runtime leaves these two signals ignored. It does not say whether others were ignored.
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

// PID 1 of a container adopts orphans. Here redimutex is made to adopt them.
func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := clitest.Prepare(t, s, "run", "job", "--", "sh", "-c", `sh -c 'sleep 0.1 & echo "[$!]"'; echo ready; exec sleep 1000`)
	p.Cmd.Env = append(p.Cmd.Env, "REDIMUTEX_TEST_REAPER=1")
	p.Start()
	p.Says("ready")
	orphan := p.Prints(1)[0]
	redistest.Wait(t, "no zombie of the orphan", func() bool { return syscall.Kill(orphan, 0) == syscall.ESRCH })
	terminate(t, p)
}

// A dead process that only has to be reaped is no reason to wait until the grace is over.
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
