//go:build linux

package locks

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestListShowsAtATerminalHowFarItIs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "page", "cached")
	url, stalled := stall(s, "SCAN", 1)
	y := clitest.Shell(t, s, "", nil, `exec "PROGRAM" list -redis `+url)
	<-stalled
	y.Says("0 keys, 0 locks; Ctrl-C prints what is found")
	y.Type(clitest.CtrlC)
	assert.Equal(t, 130, y.Status())
	assert.Contains(t, y.Out(), "the list is incomplete")
}
