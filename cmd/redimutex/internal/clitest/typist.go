//go:build linux

package clitest

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

// A Typist sits at its own terminal, in which a command line runs. Its process is script(1), whose exit status is that of the
// command line.
type Typist struct {
	*Process
	keys    io.Writer
	program string
}

// Keys with a meaning for the terminal.
const (
	CtrlC = "\x03"
	CtrlZ = "\x1a"

	CtrlBackslash = "\x1c"
)

// SitDown starts a line of bash, with job control, in a new terminal. In the line, RUN stands for redimutex run with the
// flags. SitDown waits until the line has printed ready.
func SitDown(t *testing.T, s *redistest.Server, flags, line string) *Typist {
	t.Helper()
	file := filepath.Join(t.TempDir(), "line")
	line = strings.ReplaceAll(line, "RUN", `"PROGRAM" run `+flags+" job --")
	y := terminal(t, s, "exec bash -m '"+file+"'")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(line, "PROGRAM", y.program)), 0o600))
	y.sit()
	y.Says("ready")
	return y
}

// Shell runs a command line of a shell in a new terminal. In the line, WATCH stands for redimutex watch, and PROGRAM for
// redimutex.
func Shell(t *testing.T, s *redistest.Server, dir string, env []string, line string) *Typist {
	t.Helper()
	y := terminal(t, s, strings.ReplaceAll(line, "WATCH", `"PROGRAM" watch`))
	y.Cmd.Dir, y.Cmd.Env = dir, append(y.Cmd.Env, env...)
	return y.sit()
}

// terminal prepares a new terminal in which a shell runs the line.
func terminal(t *testing.T, s *redistest.Server, line string) *Typist {
	t.Helper()
	for _, name := range []string{"script", "bash"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s(1), which makes the terminal", name)
		}
	}
	p := Prepare(t, s)
	y := &Typist{Process: p, program: p.Cmd.Path}
	c := exec.Command("script", "-qec", strings.ReplaceAll(line, "PROGRAM", y.program), os.DevNull)
	c.Env, c.Stdout, c.Stderr, c.SysProcAttr = p.Cmd.Env, p.Cmd.Stdout, p.Cmd.Stderr, p.Cmd.SysProcAttr
	p.Cmd = c
	return y
}

func (y *Typist) sit() *Typist {
	y.t.Helper()
	keys, err := y.Cmd.StdinPipe()
	require.NoError(y.t, err)
	y.keys = keys
	y.Start()
	return y
}

// Type types keys.
func (y *Typist) Type(keys string) {
	y.t.Helper()
	_, err := io.WriteString(y.keys, keys)
	require.NoError(y.t, err)
}
