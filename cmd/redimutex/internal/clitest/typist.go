//go:build linux

package clitest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

// A Typist sits at a terminal of its own, in which a command line runs. Its process is that of
// script(1), whose exit status is that of the command line.
type Typist struct {
	*Process
	keys io.Writer
}

// Keys that have a meaning for the terminal.
const (
	CtrlC = "\x03"
	CtrlZ = "\x1a"

	CtrlBackslash = "\x1c"
)

// SitDown starts a line of bash, with job control, in a new terminal. RUN in it stands for redimutex
// run with the flags.
func SitDown(t *testing.T, s *redistest.Server, flags, line string) *Typist {
	t.Helper()
	for _, name := range []string{"script", "bash"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s(1), which makes the terminal", name)
		}
	}
	p := Prepare(t, s, "run")
	file := filepath.Join(t.TempDir(), "line")
	line = strings.ReplaceAll(line, "RUN", fmt.Sprintf("%q run %s job --", p.Cmd.Path, flags))
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	args := []string{"-qec", "exec bash -m " + file, os.DevNull}
	c := exec.Command("script", args...)
	c.Env, c.Stdout, c.Stderr, c.SysProcAttr = p.Cmd.Env, p.Cmd.Stdout, p.Cmd.Stderr, p.Cmd.SysProcAttr
	keys, err := c.StdinPipe()
	require.NoError(t, err)
	p.Cmd = c
	p.Start()
	return &Typist{p, keys}
}

// Type types keys.
func (y *Typist) Type(keys string) {
	y.t.Helper()
	_, err := io.WriteString(y.keys, keys)
	require.NoError(y.t, err)
}

// Operator is somebody who starts the program in a new terminal, without a shell.
func Operator(t *testing.T, s *redistest.Server, args string) *Typist {
	t.Helper()
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("needs script(1), which makes the terminal")
	}
	p := Prepare(t, s)
	c := exec.Command("script", "-qec", fmt.Sprintf("exec %q %s", p.Cmd.Path, args), os.DevNull)
	c.Env, c.Stdout, c.Stderr, c.SysProcAttr = p.Cmd.Env, p.Cmd.Stdout, p.Cmd.Stderr, p.Cmd.SysProcAttr
	keys, err := c.StdinPipe()
	require.NoError(t, err)
	p.Cmd = c
	p.Start()
	return &Typist{p, keys}
}

// Shell runs a shell's command line in a terminal of its own. WATCH in it stands for redimutex watch, PROGRAM for redimutex.
func Shell(t *testing.T, s *redistest.Server, dir string, env []string, line string) *Typist {
	t.Helper()
	for _, name := range []string{"script", "bash"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s(1), which makes the terminal", name)
		}
	}
	p := Prepare(t, s)
	line = strings.ReplaceAll(line, "WATCH", fmt.Sprintf("%q watch", p.Cmd.Path))
	line = strings.ReplaceAll(line, "PROGRAM", p.Cmd.Path)
	c := exec.Command("script", "-qec", line, os.DevNull)
	c.Dir, c.Env, c.Stdout, c.Stderr, c.SysProcAttr = dir, append(p.Cmd.Env, env...), p.Cmd.Stdout, p.Cmd.Stderr, p.Cmd.SysProcAttr
	keys, err := c.StdinPipe()
	require.NoError(t, err)
	p.Cmd = c
	p.Start()
	return &Typist{p, keys}
}
