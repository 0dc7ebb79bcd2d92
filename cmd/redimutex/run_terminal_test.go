//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

// A typist sits at a terminal of its own, in which a command line runs. Its process is that of
// script(1), whose exit status is that of the command line.
type typist struct {
	*process
	keys io.Writer
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// sitDown starts a line of bash, with job control, in a new terminal. RUN in it stands for redimutex
// run with the flags.
func sitDown(t *testing.T, s *redistest.Server, flags, line string) *typist {
	t.Helper()
	for _, name := range []string{"script", "bash"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s(1), which makes the terminal", name)
		}
	}
	p := prepare(t, s, "run")
	file := filepath.Join(t.TempDir(), "line")
	line = strings.ReplaceAll(line, "RUN", fmt.Sprintf("%q run %s job --", p.cmd.Path, flags))
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	args := []string{"-qec", "exec bash -m " + file, os.DevNull}
	c := exec.Command("script", args...)
	c.Env, c.Stdout, c.Stderr, c.SysProcAttr = p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr
	keys, err := c.StdinPipe()
	require.NoError(t, err)
	p.cmd = c
	p.start()
	return &typist{p, keys}
}

func (y *typist) types(keys string) {
	y.t.Helper()
	_, err := io.WriteString(y.keys, keys)
	require.NoError(y.t, err)
}

func TestCommandReadsFromTheTerminalAndTheShellGetsItBack(t *testing.T) {
	// A subshell does not take the terminal back by itself, as a shell with job control would.
	y := sitDown(t, redistest.Start(t), "",
		`( RUN sh -c 'echo ready; read x; echo "got $x"'; echo next; read y; echo "then $y"; exit 7 )`)
	y.says("ready")
	y.types("one\n")
	y.says("got one")
	y.says("next")
	y.types("two\n")
	y.says("then two")
	assert.Equal(t, 7, y.status())
}

func TestCtrlCReachesTheCommand(t *testing.T) {
	y := sitDown(t, redistest.Start(t), "", `RUN sh -c 'trap "echo caught; exit 7" INT; echo ready; read x'; echo "status $?"`)
	y.says("ready")
	y.types(ctrlC)
	y.says("caught")
	y.says("status 7")
}

func TestCommandInAPipelineReadsFromTheTerminal(t *testing.T) {
	y := sitDown(t, redistest.Start(t), "", `RUN sh -c 'echo ready; read x; echo "got $x"' | cat; echo "status ${PIPESTATUS[0]}"`)
	y.says("ready")
	y.types("one\n")
	y.says("got one")
	y.says("status 0")
}

func TestCommandThatIsStoppedAtTheTerminalGoesOnWithItsLock(t *testing.T) {
	y := sitDown(t, redistest.Start(t), "-ttl 60", `RUN sh -c 'echo ready; read x; echo "got $x"'; echo "stopped $?"; fg; echo "status $?"`)
	y.says("ready")
	y.types(ctrlZ)
	y.says("stopped 1") // 128 and the signal
	y.types("one\n")
	y.says("got one")
	y.says("status 0")
}

func TestCommandThatIsStoppedForTooLongDoesNotRunOn(t *testing.T) {
	s := redistest.Start(t)
	gate := filepath.Join(t.TempDir(), "gate")
	y := sitDown(t, s, "-ttl 1", `RUN sh -c 'echo ready; read x; echo ran on'; echo "stopped $?"; until test -e `+gate+`; do sleep 0.05; done; fg; echo "status $?"`)
	y.says("ready")
	y.types(ctrlZ)
	y.says("stopped 1")
	redistest.Wait(t, "the end of the TTL", func() bool { return s.Get("job") == "" })
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	y.types("one\n")
	y.says("status 137")
	assert.Contains(t, y.out(), "it expired")
	assert.NotContains(t, strings.ReplaceAll(y.out(), "echo ran on", ""), "ran on")
}

// Without a shell that could continue us, as under ssh -t, stopping would be for ever.
func TestCtrlZWithoutAShellIsHarmless(t *testing.T) {
	y := sitDown(t, redistest.Start(t), "",
		`exec RUN sh -c 'trap "echo woken" CONT; echo ready; until read x && test "$x" = one; do :; done; echo "got $x"'`)
	y.says("ready")
	y.types(ctrlZ)
	y.says("woken")
	y.types("one\n")
	y.says("got one")
	assert.Equal(t, 0, y.status())
}
