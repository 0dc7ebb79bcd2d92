package run

import (
	"fmt"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// notes writes lines to stderr. A caller is not blocked if stderr is a pipe that no process reads: the command must be killed
// in time, whatever happens to the line that says so.
type notes struct {
	lines chan string
	empty chan struct{}
}

func newNotes(t *cli.Terminal) *notes {
	n := &notes{lines: make(chan string, 16), empty: make(chan struct{})}
	go func() {
		for line := range n.lines {
			if line == "" {
				close(n.empty)
				return
			}
			t.Warn("%s", line)
		}
	}()
	return n
}

// say writes a line, or drops it if many lines are stuck already.
func (n *notes) say(format string, args ...any) {
	select {
	case n.lines <- fmt.Sprintf(format, args...):
	default:
	}
}

// flush waits until all lines are written, for at most a second. Later lines are dropped.
func (n *notes) flush() {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case n.lines <- "":
	case <-timer.C:
		return
	}
	select {
	case <-n.empty:
	case <-timer.C:
	}
}
