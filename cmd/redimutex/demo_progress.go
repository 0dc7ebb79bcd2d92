package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A progress shows how far a round is: a bar that moves on a terminal, now and then a line elsewhere.
type progress struct {
	w     io.Writer
	title string
	style style
	shown time.Time
	part  int // quarters that have been told
}

func newProgress(w io.Writer, title string) *progress {
	return &progress{w: w, title: title, style: styleOf(w)}
}

const (
	barWidth    = 40
	barInterval = 50 * time.Millisecond
)

func (p *progress) show(done, all int) {
	all = max(all, 1)
	if !p.style.terminal {
		if part := 4 * done / all; part > p.part {
			p.part = part
			fmt.Fprintf(p.w, "   %d of %d updates\n", done, all)
		}
		return
	}
	if now := time.Now(); now.Sub(p.shown) >= barInterval {
		p.shown = now
		full := min(barWidth*done/all, barWidth)
		fmt.Fprintf(p.w, "\r   %s%s %d of %d updates\x1b[K",
			strings.Repeat(p.style.full(), full), strings.Repeat(p.style.none(), barWidth-full), done, all)
	}
}

// end makes room for what comes next.
func (p *progress) end() {
	if p.style.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	} else {
		fmt.Fprintln(p.w)
	}
}

// A style says what can be shown.
type style struct {
	terminal bool // the cursor can be moved
	colour   bool
	ascii    bool
}

// styleOf returns the style for what is written to w.
func styleOf(w io.Writer) style {
	s := style{ascii: plainLocale()}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		s.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	s.colour = s.terminal && os.Getenv("NO_COLOR") == ""
	return s
}

// plainLocale reports whether the environment asks for ASCII. Where it says nothing, as in many
// containers, what shows the output can do better nevertheless.
func plainLocale() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			return v == "C" || v == "POSIX"
		}
	}
	return false
}

func (s style) pick(unicode, ascii string) string {
	if s.ascii {
		return ascii
	}
	return unicode
}

func (s style) full() string { return s.pick("█", "#") }
func (s style) none() string { return s.pick("░", ".") }

const (
	red  = "31"
	blue = "34"
	dim  = "2"
)

func (s style) paint(colour, text string) string {
	if !s.colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
