package main

import (
	"fmt"
	"strings"
	"time"
)

const textWidth = 66 // columns of the timeline itself, so that all fits into 80

// text draws the timeline in characters: a row for each worker, in which a cell is the darker the
// more of its time the worker was in the critical section; and what is to be said below.
func (t *timeline) text(s style) string {
	var b strings.Builder
	clashes := t.clashes()
	for w := range demoWorkers {
		fmt.Fprintf(&b, "   worker %d ", w+1)
		for column := range textWidth {
			b.WriteString(t.cell(w, t.at(column), clashes, s))
		}
		b.WriteByte('\n')
	}
	if len(clashes) > 0 {
		fmt.Fprintf(&b, "   at once  %s\n", s.paint(red, t.clashRow(clashes)))
	}
	if t.death != nil {
		fmt.Fprintf(&b, "            %s\n", s.paint(red, t.deathRow(s)))
	}
	fmt.Fprintf(&b, "            %s\n", s.paint(dim, t.axis()))
	return b.String()
}

// at returns the time that a column stands for.
func (t *timeline) at(column int) stretch {
	return stretch{t.length * time.Duration(column) / textWidth, t.length * time.Duration(column+1) / textWidth}
}

// column returns where at is.
func (t *timeline) column(at time.Duration) int {
	return min(int(at*textWidth/max(t.length, 1)), textWidth-1)
}

// cell draws a column of a worker.
func (t *timeline) cell(worker int, at stretch, clashes []stretch, s style) string {
	if d := t.death; d != nil && d.worker == worker && d.at < at.to {
		if d.at >= at.from {
			return s.paint(red, s.pick("✗", "X"))
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
		return s.paint(dim, s.pick("·", " "))
	}
	shades := strings.Split(s.pick("░▒▓█", ".-=#"), "")
	shade := shades[min(int(inside*4/max(at.to-at.from, 1)), 3)]
	if clash > 0 {
		return s.paint(red, shade)
	}
	return s.paint(blue, shade)
}

// clashRow marks the columns in which more than one goroutine was in the critical section.
func (t *timeline) clashRow(clashes []stretch) string {
	row := []byte(strings.Repeat(" ", textWidth))
	for column := range row {
		for _, c := range clashes {
			if _, ok := c.common(t.at(column)); ok {
				row[column] = '!'
			}
		}
	}
	return string(row)
}

// deathRow shows how long the lock was nobody's.
func (t *timeline) deathRow(s style) string {
	from, to, told := t.column(t.death.at), textWidth-1, "nobody"
	if t.death.over() {
		to, told = t.column(t.death.next), "free after "+inSeconds(t.death.recovery())
	}
	bracket := func(inside string, width int) string {
		return s.pick("╰", "+") + inside + strings.Repeat(s.pick("─", "-"), max(width-len(inside), 0)) + s.pick("╯", "+")
	}
	width := max(to-from-1, 0)
	switch {
	case width >= len(told)+2:
		return strings.Repeat(" ", from) + bracket(" "+told+" ", width)
	case to+1+len(told) < textWidth:
		return strings.Repeat(" ", from) + bracket("", width) + " " + told
	}
	return strings.Repeat(" ", max(from-1-len(told), 0)) + told + " " + bracket("", width)
}

// axis shows the time.
func (t *timeline) axis() string {
	row := []byte(strings.Repeat(" ", textWidth+8))
	for _, at := range ticks(t.length) {
		label := fmt.Sprintf("%.1f", at.Seconds())
		if at == 0 {
			label = "0 s"
		}
		copy(row[t.column(at):], label)
	}
	return strings.TrimRight(string(row), " ")
}
