package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// A progress shows how far a round is: a bar that moves on a terminal, now and then a line elsewhere.
type progress struct {
	w     io.Writer
	style cli.Style
	shown time.Time
	part  int // quarters that have been told
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, style: cli.StyleOf(w)}
}

const (
	barWidth    = 40
	barInterval = 50 * time.Millisecond
)

func (p *progress) show(done, all int) {
	all = max(all, 1)
	if !p.style.Terminal {
		if part := 4 * done / all; part > p.part {
			p.part = part
			fmt.Fprintf(p.w, "   %d of %d updates\n", done, all)
		}
		return
	}
	if now := time.Now(); now.Sub(p.shown) >= barInterval {
		p.shown = now
		columns, _ := cli.Size(p.w)
		width := min(barWidth, max(columns-30, 5))
		full := min(width*done/all, width)
		fmt.Fprintf(p.w, "\r   %s%s %d of %d updates\x1b[K",
			strings.Repeat(p.style.Full(), full), strings.Repeat(p.style.None(), width-full), done, all)
	}
}

// end makes room for what comes next.
func (p *progress) end() {
	if p.style.Terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	} else {
		fmt.Fprintln(p.w)
	}
}
