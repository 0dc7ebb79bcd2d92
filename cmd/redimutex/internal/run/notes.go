package run

import (
	"fmt"
	"io"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// Notes are lines for stderr. A caller that writes one is not held up if stderr is a pipe that no process reads: the command
// has to be killed in time, whatever becomes of the line that says so.
type notes struct {
	lines chan string
	empty chan struct{}
}

func newNotes(w io.Writer) *notes {
	n := &notes{lines: make(chan string, 16), empty: make(chan struct{})}
	go func() {
		for line := range n.lines {
			if line == "" {
				close(n.empty)
				return
			}
			fmt.Fprintf(w, "redimutex: %s\n", cli.Printable(line))
		}
	}()
	return n
}

// say writes a line, or drops it when many are stuck already.
func (n *notes) say(format string, args ...any) {
	select {
	case n.lines <- fmt.Sprintf(format, args...):
	default:
	}
}

// flush waits until all lines are written, for a second at most. Lines that come later are dropped.
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
