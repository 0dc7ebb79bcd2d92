package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A progress shows how far the program is: a bar that moves on a terminal, elsewhere now and then a line.
type progress struct {
	w           io.Writer
	terminal    bool
	began       time.Time
	done, total time.Duration
	shown       time.Duration // of done, in the last plain line
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	return p
}

const barWidth = 30

func (p *progress) start(total time.Duration) {
	p.total, p.began = total, time.Now()
	fmt.Fprintf(p.w, "This takes about %v.\n", total.Round(time.Second))
}

// show says what is being done.
func (p *progress) show(what string) {
	share := float64(p.done) / float64(max(p.total, 1))
	switch {
	case p.terminal:
		full := min(int(barWidth*share), barWidth)
		fmt.Fprintf(p.w, "\r%s%s %3.0f%% %s\x1b[K", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), 100*share, what)
	case p.done == 0 || p.done-p.shown >= p.total/20:
		p.shown = p.done
		fmt.Fprintf(p.w, "%3.0f%% after %v: %s\n", 100*share, time.Since(p.began).Round(time.Second), what)
	}
}

// add says that a part of the planned time is over.
func (p *progress) add(d time.Duration) { p.done += d }

// end makes room for what comes next.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	fmt.Fprintf(p.w, "It took %v.\n\n", time.Since(p.began).Round(time.Second))
}
