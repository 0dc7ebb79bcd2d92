//go:build linux

package locks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestBreakAsksAndTakesOnlyYesForIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	token := clitest.Token("web-1")
	s.Do("SET", "job", token, "PX", 600000)
	for _, c := range []struct {
		answer string
		status int
	}{{"n\n", 1}, {"\n", 1}, {"yy\n", 1}, {"\x04", 1}, {clitest.CtrlC, 130}, {"YES\n", 0}} {
		assert.Equal(t, token, s.Get("job"))
		y := clitest.Shell(t, s, "", nil, `exec "PROGRAM" break job`)
		y.Says("[y/N]")
		assert.Contains(t, y.Out(), "job: held by web-1, age unknown")
		y.Type(c.answer)
		assert.Equal(t, c.status, y.Status(), "%q", c.answer)
		switch c.status {
		case 0:
			assert.Contains(t, y.Out(), "The lock is broken.")
		case 1:
			assert.Contains(t, y.Out(), "Nothing was broken.")
		}
	}
	assert.Empty(t, s.Get("job"))
}

func TestLockThatChangesHandsBeforeTheYesIsNotBroken(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "job", clitest.Token("web-1"), "PX", 600000)
	y := clitest.Shell(t, s, "", nil, `exec "PROGRAM" break -json job`)
	y.Says("[y/N]")
	second := clitest.Token("web-2")
	s.Do("SET", "job", second, "PX", 600000)
	y.Type("y\n")
	assert.Equal(t, 1, y.Status())
	assert.Contains(t, y.Out(), `"result":"changed"`)
	assert.Equal(t, second, s.Get("job"))
	assert.Equal(t, 1, strings.Count(y.Out(), "[y/N]"))
}

func TestListShowsAtATerminalHowFarItIs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "page", "cached")
	url, stalled := stall(s, "SCAN", 1)
	y := clitest.Shell(t, s, "", nil, `exec "PROGRAM" list -redis `+url)
	y.Reaches(stalled)
	y.Says("0 keys, 0 locks; Ctrl-C prints what is found")
	y.Type(clitest.CtrlC)
	assert.Equal(t, 130, y.Status())
	assert.Contains(t, y.Out(), "the list is incomplete")
}
