//go:build linux

package watch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

var xterm = []string{"TERM=xterm", "LC_ALL=C.UTF-8", "NO_COLOR="}

func TestWatchDrawsAPictureAndCtrlCGivesTheScreenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	y := clitest.Shell(t, s, "", xterm, `exec bash -c 'trap : INT; stty rows 24 cols 60; WATCH -interval 0.05 job; echo "status $?"'`)
	y.Says("free")
	assert.Contains(t, y.Out(), screenOn)
	m := hold(t, s, "job", "web-1 "+strings.Repeat("long ", 20))
	y.Says("acquired by web-1")
	m.Unlock()
	y.Says("released by")
	y.Type(clitest.CtrlC)
	y.Says("status 130")
	_, after, found := strings.Cut(y.Out(), screenOff)
	require.True(t, found)
	assert.NotContains(t, after, screenOn)
	assert.Contains(t, after, "released by", "the last picture stays")
	for line := range strings.Lines(after) {
		assert.LessOrEqual(t, len([]rune(unpainted(line))), 60+1, line)
	}
	assert.NotContains(t, y.Out(), m.Key()+": ", "no lines between the pictures")
}

// unpainted returns a line without its colours, and without its end.
func unpainted(line string) string {
	for _, code := range []string{"0", cli.Red, cli.Blue, cli.Dim, cli.Strong} {
		line = strings.ReplaceAll(line, "\x1b["+code+"m", "")
	}
	return strings.TrimRight(line, "\r\n")
}

func TestWatchFollowsTheSizeOfTheTerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "job", clitest.Token(strings.Repeat("x", 100)), "PX", 600000)
	gate := filepath.Join(t.TempDir(), "gate")
	y := clitest.Shell(t, s, "", xterm, `exec bash -c 'stty cols 20; (until test -e "`+gate+`"; do sleep 0.05; done; stty cols 70 </dev/tty) & WATCH -interval 0.05 job'`)
	y.Says("x...")
	assert.NotContains(t, y.Out(), strings.Repeat("x", 30))
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	y.Says(strings.Repeat("x", 40))
}

func TestWatchLeavesTheScreenWhileItIsStopped(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	y := clitest.Shell(t, s, "", xterm, `exec bash -mc 'WATCH -interval 0.05 job; echo "stopped $?"; fg'`)
	y.Says("free")
	y.Type(clitest.CtrlZ)
	y.Says("stopped 1")
	before, after, _ := strings.Cut(y.Out(), "stopped 1")
	assert.Contains(t, before, screenOff)
	redistest.Wait(t, "the screen is taken again", func() bool {
		_, after, _ = strings.Cut(y.Out(), "stopped 1")
		return strings.Contains(after, screenOn)
	})
	y.Type(clitest.CtrlC)
	assert.Equal(t, 130, y.Status())
}

func TestTerminalThatCanDoNothingGetsLines(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	y := clitest.Shell(t, s, "", []string{"TERM=dumb"}, `exec WATCH -for 0.1 job`)
	assert.Equal(t, cli.OK, y.Status())
	assert.Contains(t, y.Out(), " job: free")
	assert.NotContains(t, y.Out(), "\x1b")
	y = clitest.Shell(t, s, "", append(xterm, "NO_COLOR=1"), `exec WATCH -for 0.1 job`)
	assert.Equal(t, cli.OK, y.Status())
	assert.Contains(t, y.Out(), screenOn)
	assert.NotContains(t, y.Out(), "\x1b["+cli.Dim+"m")
}

func TestQLeavesWatchAndGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	y := clitest.Shell(t, s, "", xterm, `exec bash -c 'stty rows 24 cols 60; before=$(stty -g); WATCH -interval 0.05 job; echo "status $?"; test "$before" = "$(stty -g)" && echo as before; WATCH -until-free -interval 0.05 job; echo "then $?"'`)
	y.Says("free")
	y.Type("x\nq")
	y.Says("status 0")
	y.Says("as before")
	y.Says("then 0")
	assert.Equal(t, 4, strings.Count(y.Out(), screenOn)+strings.Count(y.Out(), screenOff), "the screen is given back, both times")
}

func TestWatchHeedsEachSignalToEndButThoseThatOurParentIgnores(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	y := clitest.Shell(t, s, "", xterm, `exec bash -c 'before=$(stty -g); WATCH job; echo "status $?"; test "$before" = "$(stty -g)" && echo as before'`)
	y.Says("free")
	y.Type(clitest.CtrlBackslash)
	y.Says("status 131")
	y.Says("as before")
	y = clitest.Shell(t, s, "", xterm, `exec bash -c 'trap "" HUP; WATCH job & read -r; kill -HUP $!; kill -TERM $!; wait $!; echo "status $?"'`)
	y.Says("free") // so it listens to signals
	y.Type("\r")
	y.Says("status 143")
	assert.Contains(t, y.Out(), screenOff)
}
