package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/progress"
)

// A meter shows how far the program is: by a bar on a terminal, and by a line for each row.
type meter struct {
	plan map[string]time.Duration

	mu    sync.Mutex
	bar   *progress.Bar
	done  time.Duration // the planned time of the rows that have ended
	row   evidence.Row
	shown time.Time
}

func startMeter(w io.Writer, plan map[string]time.Duration) *meter {
	var total time.Duration
	for _, d := range plan {
		total += d
	}
	return &meter{plan: plan, bar: progress.Start(w, total)}
}

func (m *meter) begin(row evidence.Row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.row = row
	m.show(0)
	if !m.bar.Terminal() {
		m.bar.Line("%2d %s: about %v", row.ID, row.Name, m.plan[row.Name].Round(time.Second))
	}
}

// report records how far the row is.
func (m *meter) report(done, of int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if of > 0 && time.Since(m.shown) >= 100*time.Millisecond {
		m.shown = time.Now()
		m.show(min(float64(done)/float64(of), 1))
	}
}

// show draws the bar. part is how much of the present row is done. The caller holds m.mu.
func (m *meter) show(part float64) {
	m.bar.Show(m.done+time.Duration(part*float64(m.plan[m.row.Name])), fmt.Sprintf("%d %s", m.row.ID, m.row.Name))
}

func (m *meter) end(o outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += m.plan[o.Name]
	m.bar.Line("%2d %s: %s, %v", o.ID, o.Name, o.verdict(), o.took.Round(100*time.Millisecond))
}
