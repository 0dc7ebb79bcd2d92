package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// A progress shows how far the program is: a bar that moves on a terminal, elsewhere a line for each row.
type progress struct {
	w        io.Writer
	terminal bool
	plan     map[string]time.Duration
	total    time.Duration

	mu    sync.Mutex
	done  time.Duration // the planned time of the rows that are through
	row   evidence.Row
	shown time.Time
}

func newProgress(w io.Writer, plan map[string]time.Duration) *progress {
	p := &progress{w: w, plan: plan}
	for _, d := range plan {
		p.total += d
	}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	fmt.Fprintf(w, "This takes about %v.\n", p.total.Round(time.Second))
	return p
}

func (p *progress) begin(row evidence.Row) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.row = row
	if p.terminal {
		p.bar(0)
	} else {
		fmt.Fprintf(p.w, "%2d %s: about %v\n", row.ID, row.Name, p.plan[row.Name].Round(time.Second))
	}
}

// report takes in how far the row is.
func (p *progress) report(done, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminal || of <= 0 || time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now()
	p.bar(min(float64(done)/float64(of), 1))
}

const barWidth = 30

// bar draws the bar, with a part of the present row. The caller holds p.mu.
func (p *progress) bar(part float64) {
	share := (p.done.Seconds() + part*p.plan[p.row.Name].Seconds()) / max(p.total.Seconds(), 1e-9)
	full := min(int(barWidth*share), barWidth)
	fmt.Fprintf(p.w, "\r%s%s %3.0f%% %d %s\x1b[K",
		strings.Repeat("█", full), strings.Repeat("░", barWidth-full), 100*share, p.row.ID, p.row.Name)
}

func (p *progress) end(o outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += p.plan[o.Name]
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	fmt.Fprintf(p.w, "%2d %s: %s, %v\n", o.ID, o.Name, o.verdict(), o.took.Round(100*time.Millisecond))
}
