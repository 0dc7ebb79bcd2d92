// Package progress shows how far a long-running program is.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A Bar moves on a terminal, with lines above it. Elsewhere only the lines are written. One goroutine at a time may use it.
type Bar struct {
	w        io.Writer
	terminal bool
	total    time.Duration
}

// Start prints how long the work will take in all.
func Start(w io.Writer, total time.Duration) *Bar {
	b := &Bar{w: w, total: total}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		b.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	fmt.Fprintf(w, "This takes about %v.\n", total.Round(time.Second))
	return b
}

// Terminal reports whether the output is a terminal, so that there is a bar.
func (b *Bar) Terminal() bool { return b.terminal }

// Share returns the part of the whole that is done after this much of the planned time.
func (b *Bar) Share(done time.Duration) float64 { return float64(done) / float64(max(b.total, 1)) }

const width = 30

// Show draws the bar and what is being done, if there is a bar.
func (b *Bar) Show(done time.Duration, what string) {
	if !b.terminal {
		return
	}
	share := b.Share(done)
	full := min(int(width*share), width)
	fmt.Fprintf(b.w, "\r%s%s %3.0f%% %s\x1b[K", strings.Repeat("█", full), strings.Repeat("░", width-full), 100*share, what)
}

// Line writes a line in the place of the bar.
func (b *Bar) Line(format string, args ...any) {
	if b.terminal {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
	fmt.Fprintf(b.w, format+"\n", args...)
}
