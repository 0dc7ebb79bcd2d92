//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

// watchTerminal runs a shell's command line in a terminal of its own.
func watchTerminal(t *testing.T, s *redistest.Server, dir string, env []string, line string) *typist {
	t.Helper()
	for _, name := range []string{"script", "bash"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s(1), which makes the terminal", name)
		}
	}
	p := prepare(t, s)
	line = strings.ReplaceAll(line, "WATCH", fmt.Sprintf("%q watch", p.cmd.Path))
	c := exec.Command("script", "-qec", line, os.DevNull)
	c.Dir, c.Env, c.Stdout, c.Stderr, c.SysProcAttr = dir, append(p.cmd.Env, env...), p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr
	keys, err := c.StdinPipe()
	require.NoError(t, err)
	p.cmd = c
	p.start()
	return &typist{p, keys}
}

var xterm = []string{"TERM=xterm", "LC_ALL=C.UTF-8", "NO_COLOR="}

func TestWatchDrawsAPictureAndCtrlCGivesTheScreenBack(t *testing.T) {
	s := redistest.Start(t)
	y := watchTerminal(t, s, "", xterm, `exec bash -c 'stty rows 24 cols 60; WATCH -interval 0.05 job; echo "status $?"'`)
	y.says("free")
	assert.Contains(t, y.out(), screenOn)
	m := hold(t, s, "job", "web-1 "+strings.Repeat("long ", 20))
	y.says("acquired by web-1")
	m.Unlock()
	y.says("released by")
	y.types(ctrlC)
	y.says("status 130")
	_, after, found := strings.Cut(y.out(), screenOff)
	require.True(t, found)
	assert.NotContains(t, after, screenOn)
	assert.Contains(t, after, "released by", "the last picture stays")
	for line := range strings.Lines(after) {
		assert.LessOrEqual(t, len([]rune(unpainted(line))), 60+1, line)
	}
	assert.NotContains(t, y.out(), m.Key()+": ", "no lines between the pictures")
}

// unpainted is a line without its colours, and without its end.
func unpainted(line string) string {
	for _, code := range []string{"0", red, blue, dim, strong} {
		line = strings.ReplaceAll(line, "\x1b["+code+"m", "")
	}
	return strings.TrimRight(line, "\r\n")
}

func TestWatchFollowsTheSizeOfTheTerminal(t *testing.T) {
	s := redistest.Start(t)
	s.Do("SET", "job", "f47ac10b-58cc-4372-a567-0e02b2c3d479 "+strings.Repeat("x", 100), "PX", 600000)
	gate := filepath.Join(t.TempDir(), "gate")
	y := watchTerminal(t, s, "", xterm, `exec bash -c 'stty cols 20; (until test -e `+gate+`; do sleep 0.05; done; stty cols 70 </dev/tty) & WATCH -interval 0.05 job'`)
	y.says("x...")
	assert.NotContains(t, y.out(), strings.Repeat("x", 30))
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	y.says(strings.Repeat("x", 40))
}

func TestWatchEndsWithTERMAndGivesTheScreenBack(t *testing.T) {
	s := redistest.Start(t)
	y := watchTerminal(t, s, "", xterm, `exec bash -c 'WATCH job & echo "pid $!,"; wait; echo "status $?"'`)
	y.says("free")
	_, after, _ := strings.Cut(y.out(), "pid ")
	var pid int
	_, err := fmt.Sscanf(after, "%d,", &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	y.says(screenOff)
}

func TestWatchLeavesTheScreenWhileItIsStopped(t *testing.T) {
	s := redistest.Start(t)
	y := watchTerminal(t, s, "", xterm, `exec bash -mc 'WATCH -interval 0.05 job; echo "stopped $?"; fg; echo "status $?"'`)
	y.says("free")
	y.types(ctrlZ)
	y.says("stopped 1")
	before, after, _ := strings.Cut(y.out(), "stopped 1")
	assert.Contains(t, before, screenOff)
	redistest.Wait(t, "the screen is taken again", func() bool {
		_, after, _ = strings.Cut(y.out(), "stopped 1")
		return strings.Contains(after, screenOn)
	})
	y.types(ctrlC)
	y.says("status 130")
}

func TestTerminalThatCanDoNothingGetsLines(t *testing.T) {
	s := redistest.Start(t)
	y := watchTerminal(t, s, "", []string{"TERM=dumb"}, `exec WATCH -for 0.1 job`)
	assert.Equal(t, exitOK, y.status())
	assert.Contains(t, y.out(), " job: free")
	assert.NotContains(t, y.out(), "\x1b")
	y = watchTerminal(t, s, "", append(xterm, "NO_COLOR=1"), `exec WATCH -for 0.1 job`)
	assert.Equal(t, exitOK, y.status())
	assert.Contains(t, y.out(), screenOn)
	assert.NotContains(t, y.out(), "\x1b["+dim+"m")
}
