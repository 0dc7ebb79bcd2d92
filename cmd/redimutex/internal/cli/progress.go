package cli

import (
	"fmt"
	"io"
	"time"
)

// A Progress is a line at a terminal, and nowhere else, that tells how far something is.
type Progress struct {
	w     io.Writer
	ticks *time.Ticker // nil where there is no terminal
	shown bool
}

// NewProgress returns the Progress for the terminal that w may be.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{w: w}
	if StyleOf(w).Terminal {
		p.ticks = time.NewTicker(200 * time.Millisecond)
	}
	return p
}

// Due tells when to show the line anew.
func (p *Progress) Due() <-chan time.Time {
	if p.ticks == nil {
		return nil
	}
	return p.ticks.C
}

// Show shows the line in the place of the last.
func (p *Progress) Show(line string) {
	p.shown = true
	fmt.Fprintf(p.w, "\r%s\x1b[K", line)
}

// Clear makes room for what comes next.
func (p *Progress) Clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// End ends it.
func (p *Progress) End() {
	if p.ticks != nil {
		p.ticks.Stop()
	}
	p.Clear()
}
