package watch

import (
	"io"
	"os"
	"strings"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// A screen is the whole of a terminal. Afterwards the terminal shows again what it showed before.
type screen struct {
	w     io.Writer
	style cli.Style
	on    bool
	rows  []row  // of the last picture
	shown string // the text that was written for it
}

// Sequences that terminals have understood since xterm: the alternate screen, no cursor, no automatic line breaks.
const (
	screenOn  = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	screenOff = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

func newScreen(w io.Writer, style cli.Style) *screen { return &screen{w: w, style: style} }

// size returns the number of columns and rows.
func (s *screen) size() (width, height int) {
	return cli.Size(s.w)
}

// draw shows a picture in place of the last one.
func (s *screen) draw(rows []row) {
	width, height := s.size()
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, r := range rows[:min(len(rows), height)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(r.paint(width, s.style) + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	s.rows = rows
	if b.String() == s.shown && s.on {
		return
	}
	s.shown = b.String()
	if !s.on {
		s.on = true
		s.write(screenOn)
	}
	s.write(s.shown)
}

// leave restores the terminal.
func (s *screen) leave() {
	if s.on {
		s.on = false
		s.write(screenOff)
	}
}

// end leaves the last picture above the next prompt: the user who ended the watch may have seen what was wanted.
func (s *screen) end() {
	if !s.on {
		return
	}
	s.leave()
	width, _ := s.size()
	for _, r := range s.rows {
		s.write(r.paint(width, s.style) + "\n")
	}
}

func (s *screen) write(text string) {
	io.WriteString(s.w, text) //nolint:errcheck // nowhere to say so
}

// keys are the keys that a user types while the picture is shown. The terminal delivers them one by one, without showing them.
// Ctrl-C and Ctrl-Z are still signals.
type keys struct {
	quit chan struct{} // q was typed
	in   *os.File      // where keys are read; nil: they are not read
	back func()        // restores the terminal; nil: it is restored
}

// listen starts to listen for q, if in is the terminal.
func listen(in *os.File) *keys {
	k := &keys{quit: make(chan struct{})}
	if !cli.IsTerminal(in) {
		return k
	}
	k.in = in
	if k.take(); k.back == nil {
		k.in = nil // in the background: to read would stop this process
		return k
	}
	go func() {
		b := make([]byte, 1)
		for {
			n, err := k.in.Read(b)
			if n == 1 && (b[0] == 'q' || b[0] == 'Q') {
				close(k.quit)
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return k
}

// take makes the terminal deliver each key at once.
func (k *keys) take() {
	if k.in != nil && k.back == nil {
		k.back = eachKey(k.in)
	}
}

// release restores the terminal.
func (k *keys) release() {
	if k.back != nil {
		k.back()
		k.back = nil
	}
}
