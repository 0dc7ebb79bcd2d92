package main

import (
	"io"
	"time"

	"github.com/redimutex/redimutex/internal/lab/progress"
)

// A meter shows how far the program is: by a bar on a terminal, elsewhere now and then by a line.
type meter struct {
	*progress.Bar
	began time.Time
	done  time.Duration // of the planned time
	shown time.Duration // of that, in the last line
	step  time.Duration // between two lines
}

func startMeter(w io.Writer, total time.Duration) *meter {
	return &meter{Bar: progress.Start(w, total), began: time.Now(), step: total / 20}
}

// show says what is being done.
func (m *meter) show(what string) {
	m.Show(m.done, what)
	if !m.Terminal() && (m.done == 0 || m.done-m.shown >= m.step) {
		m.shown = m.done
		m.Line("%3.0f%% after %v: %s", 100*m.Share(m.done), time.Since(m.began).Round(time.Second), what)
	}
}

// add says that a part of the planned time is over.
func (m *meter) add(d time.Duration) { m.done += d }

// end makes room for what comes next.
func (m *meter) end() { m.Line("It took %v.\n", time.Since(m.began).Round(time.Second)) }
