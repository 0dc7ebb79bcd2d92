package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// A chart draws a timeline in characters. What it shows beside the columns takes textMargin of them.
type chart struct {
	*timeline
	style cli.Style
	width int // columns of the timeline itself
}

const (
	textMargin = 12
	textMost   = 66 // columns, so that all fits into 80
	textLeast  = 12
)

// text draws the timeline for a terminal of that width: a row for each worker, in which a cell is the darker the
// more of its time the worker was in the critical section; and what is to be said below.
func (t *timeline) text(s cli.Style, width int) string {
	c := &chart{t, s, max(min(width-textMargin-2, textMost), textLeast)}
	return c.draw()
}

func (t *chart) draw() string {
	var b strings.Builder
	s := t.style
	clashes := t.clashes()
	for w := range demoWorkers {
		fmt.Fprintf(&b, "   worker %d ", w+1)
		for column := range t.width {
			b.WriteString(t.cell(w, t.at(column), clashes))
		}
		b.WriteByte('\n')
	}
	if len(clashes) > 0 {
		fmt.Fprintf(&b, "   at once  %s\n", s.Paint(cli.Red, t.clashRow(clashes)))
	}
	if t.death != nil {
		fmt.Fprintf(&b, "            %s\n", s.Paint(cli.Red, t.deathRow()))
	}
	fmt.Fprintf(&b, "            %s\n", s.Paint(cli.Dim, t.axis()))
	return b.String()
}

// at returns the time that a column stands for.
func (t *chart) at(column int) stretch {
	return stretch{t.length * time.Duration(column) / time.Duration(t.width), t.length * time.Duration(column+1) / time.Duration(t.width)}
}

// column returns where at is.
func (t *chart) column(at time.Duration) int {
	return min(int(at*time.Duration(t.width)/max(t.length, 1)), t.width-1)
}

// cell draws a column of a worker.
func (t *chart) cell(worker int, at stretch, clashes []stretch) string {
	s := t.style
	if d := t.death; d != nil && d.worker == worker && d.at < at.to {
		if d.at >= at.from {
			return s.Paint(cli.Red, s.Pick("✗", "X"))
		}
		return " "
	}
	var inside, clash time.Duration
	for _, sp := range t.spans {
		c, ok := at.common(stretch{sp.from, sp.to})
		if sp.worker != worker || !ok {
			continue
		}
		inside += c.to - c.from
		for _, other := range clashes {
			if both, ok := c.common(other); ok {
				clash += both.to - both.from
			}
		}
	}
	if inside == 0 {
		return s.Paint(cli.Dim, s.Pick("·", " "))
	}
	shades := strings.Split(s.Pick("░▒▓█", ".-=#"), "")
	shade := shades[min(int(inside*4/max(at.to-at.from, 1)), 3)]
	if clash > 0 {
		return s.Paint(cli.Red, shade)
	}
	return s.Paint(cli.Blue, shade)
}

// clashRow marks the columns in which more than one goroutine was in the critical section.
func (t *chart) clashRow(clashes []stretch) string {
	row := []byte(strings.Repeat(" ", t.width))
	for column := range row {
		for _, c := range clashes {
			if _, ok := c.common(t.at(column)); ok {
				row[column] = '!'
			}
		}
	}
	return string(row)
}

// deathRow shows how long no worker had the lock.
func (t *chart) deathRow() string {
	s := t.style
	from, to, told := t.column(t.death.at), t.width-1, "never free"
	if t.death.over() {
		to, told = t.column(t.death.next), inSeconds(t.death.recovery())
		if t.width >= 40 {
			told = "free after " + told
		}
	}
	bracket := func(inside string, width int) string {
		return s.Pick("╰", "+") + inside + strings.Repeat(s.Pick("─", "-"), max(width-len(inside), 0)) + s.Pick("╯", "+")
	}
	width := max(to-from-1, 0)
	switch {
	case width >= len(told)+2:
		return strings.Repeat(" ", from) + bracket(" "+told+" ", width)
	case to+1+len(told) < t.width:
		return strings.Repeat(" ", from) + bracket("", width) + " " + told
	}
	return strings.Repeat(" ", max(from-1-len(told), 0)) + told + " " + bracket("", width)
}

// axis shows the time.
func (t *chart) axis() string {
	row, free := []byte(strings.Repeat(" ", t.width+2)), 0
	for _, at := range ticks(t.length) {
		label := fmt.Sprintf("%.1f", at.Seconds())
		if at == 0 {
			label = "0 s"
		}
		if column := t.column(at); column >= free && column+len(label) <= len(row) {
			copy(row[column:], label)
			free = column + len(label) + 1
		}
	}
	return strings.TrimRight(string(row), " ")
}
