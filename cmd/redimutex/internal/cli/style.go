package cli

import (
	"cmp"
	"io"
	"os"
)

// A Style says what the output can show.
type Style struct {
	Terminal bool // the cursor can be moved
	Colour   bool
	ASCII    bool
}

// fileOf returns the file below w, or nil.
func fileOf(w io.Writer) *os.File {
	if o, ok := w.(interface{ Unwrap() io.Writer }); ok {
		w = o.Unwrap()
	}
	f, _ := w.(*os.File)
	return f
}

// StyleOf returns the style for output to w.
func StyleOf(w io.Writer) Style {
	s := Style{ASCII: plainLocale()}
	if f := fileOf(w); f != nil {
		s.Terminal = IsTerminal(f) && os.Getenv("TERM") != "dumb"
	}
	s.Colour = s.Terminal && os.Getenv("NO_COLOR") == ""
	return s
}

// IsTerminal reports whether f is a terminal. The null device and similar ones look like one, and are excluded.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	for _, name := range []string{os.DevNull, "/dev/full", "/dev/zero"} {
		if other, err := os.Stat(name); err == nil && os.SameFile(info, other) {
			return false
		}
	}
	return true
}

// plainLocale reports whether the environment asks for ASCII. If it says nothing, as in many containers, the terminal usually
// can show more.
func plainLocale() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			return v == "C" || v == "POSIX"
		}
	}
	return false
}

// Pick returns unicode, or ascii if the output can show only that.
func (s Style) Pick(unicode, ascii string) string {
	if s.ASCII {
		return ascii
	}
	return unicode
}

// Full and None are the parts of a bar.
func (s Style) Full() string { return s.Pick("█", "#") }
func (s Style) None() string { return s.Pick("░", ".") }

// The colours.
const (
	Red    = "31"
	Blue   = "34"
	Dim    = "2"
	Strong = "1"
)

// Paint colours a text, if colours are wanted.
func (s Style) Paint(colour, text string) string {
	if !s.Colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Size returns the columns and rows of a terminal; 80 and 24 if they are unknown.
func Size(w io.Writer) (width, height int) {
	if f := fileOf(w); f != nil {
		width, height = terminalSize(f)
	}
	return cmp.Or(width, 80), cmp.Or(height, 24)
}
