//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestCommandReadsFromTheTerminalAndTheShellGetsItBack(t *testing.T) {
	t.Parallel()
	// A subshell does not take the terminal back by itself, as a shell with job control would.
	y := clitest.SitDown(t, redistest.Start(t), "",
		`( RUN sh -c 'echo ready; read x; echo "got $x"'; echo next; read y; echo "then $y"; exit 7 )`)
	y.Says("ready")
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
	y.Says("ready")
	y.Type("one\n")
	y.Says("got one")
	y.Says("status 0")
}

func TestCommandThatIsStoppedAtTheTerminalGoesOnWithItsLock(t *testing.T) {
	t.Parallel()
	y := clitest.SitDown(t, redistest.Start(t), "-ttl 60", `RUN sh -c 'echo ready; read x; echo "got $x"'; echo "stopped $?"; fg; echo "status $?"`)
	y.Says("ready")
	y.Type(clitest.CtrlZ)
	y.Says("stopped 1") // 128 and the signal
	y.Type("one\n")
	y.Says("got one")
	y.Says("status 0")
}

func TestCommandThatIsStoppedForTooLongDoesNotRunOn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	gate := filepath.Join(t.TempDir(), "gate")
	y := clitest.SitDown(t, s, "-ttl 3", `RUN sh -c 'echo ready; read x; echo ran on'; echo "stopped $?"; until test -e `+gate+`; do sleep 0.05; done; fg; echo "status $?"`)
	y.Says("ready")
	y.Type(clitest.CtrlZ)
	y.Says("stopped 1")
	redistest.Wait(t, "the end of the TTL", func() bool { return s.Get("job") == "" })
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	y.Type("one\n")
	y.Says("status 137")
	assert.Contains(t, y.Out(), "it expired")
	assert.NotContains(t, strings.ReplaceAll(y.Out(), "echo ran on", ""), "ran on")
}

// Without a shell that could continue us, as under ssh -t, stopping would be for ever.
func TestCtrlZWithoutAShellIsHarmless(t *testing.T) {
	t.Parallel()
	y := clitest.SitDown(t, redistest.Start(t), "",
		`exec RUN sh -c 'trap "echo woken" CONT; echo ready; until read x && test "$x" = one; do :; done; echo "got $x"'`)
	y.Says("ready")
	y.Type(clitest.CtrlZ)
	y.Says("woken")
	y.Type("one\n")
	y.Says("got one")
	assert.Equal(t, 0, y.Status())
}

// Without a redimutex in between Ctrl-C reaches all of them. What asks for it may trap it.
func TestCtrlCEndsTheScriptAroundUsAsWell(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"bash":    `exec bash -c 'PROGRAM run build -- sh -c "echo ready; exec sleep 1000"; echo deployed'`,
		"sh":      `exec sh -c 'PROGRAM run build -- sh -c "echo ready; exec sleep 1000"; echo deployed'`,
		"a loop":  `exec bash -c 'while :; do PROGRAM run build -- sh -c "echo ready; exec sleep 1000"; echo deployed; done'`,
		"waiting": `exec bash -c 'PROGRAM run held -- true; echo deployed'`,
		"watch":   `exec bash -c 'WATCH held; echo deployed'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			s.Do("SET", "held", "f47ac10b-58cc-4372-a567-0e02b2c3d479 web-1")
			y := clitest.Shell(t, s, "", []string{"TERM=xterm"}, script)
			if name == "waiting" || name == "watch" {
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
