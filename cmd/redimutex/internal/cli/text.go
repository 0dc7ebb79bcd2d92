package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// Printable makes text of others, such as the label of a holder or the words of a server, safe to print: one line, without
// control characters for the terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// Brief rounds a time to the precision that people want.
func Brief(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Minute:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// Count puts a number before a noun: 1 update, 2 updates.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// PrintJSON prints JSON for a script. The Output remembers a write error. A key is printed unchanged, but characters that
// could confuse a terminal become \uXXXX, the same to a script. Package json does so only below the space.
func PrintJSON(w io.Writer, v any) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.Encode(v) //nolint:errcheck,errchkjson // these values can be encoded, and a Builder accepts everything
	var out strings.Builder
	for _, r := range text.String() {
		if r < 0x7f || strconv.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		for _, half := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&out, `\u%04x`, half)
		}
	}
	io.WriteString(w, out.String()) //nolint:errcheck // see above
}

// Tell prints v as JSON for a script, or in words for people.
func Tell(w io.Writer, asJSON bool, v any, words func(io.Writer)) {
	if asJSON {
		PrintJSON(w, v)
	} else {
		words(w)
	}
}

// A Progress is a line that shows how far something is. It is shown only at a terminal.
type Progress struct {
	w     io.Writer
	ticks *time.Ticker // nil where there is no terminal
	shown bool
}

// NewProgress returns the Progress for w, which may be a terminal.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{w: w}
	if StyleOf(w).Terminal {
		p.ticks = time.NewTicker(200 * time.Millisecond)
	}
	return p
}

// Due returns a channel that says when to show the line again.
func (p *Progress) Due() <-chan time.Time {
	if p.ticks == nil {
		return nil
	}
	return p.ticks.C
}

// Show shows the line in place of the last one.
func (p *Progress) Show(line string) {
	p.shown = true
	fmt.Fprintf(p.w, "\r%s\x1b[K", line)
}

// Clear removes the line, to make room for other output.
func (p *Progress) Clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// End ends the Progress.
func (p *Progress) End() {
	if p.ticks != nil {
		p.ticks.Stop()
	}
	p.Clear()
}
