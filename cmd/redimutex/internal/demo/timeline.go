package demo

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// A timeline says who was in the critical section and when. Times count from the beginning of the round.
type timeline struct {
	length time.Duration
	spans  []span // by their beginning, once finished
	death  *death // nil if no worker was killed
}

// A span is one stay in the critical section.
type span struct {
	worker, goroutine int
	from, to          time.Duration
}

// A death is the death of a worker that held the lock.
type death struct {
	worker int
	at     time.Duration

	successor int           // the worker that got the lock next
	next      time.Duration // when it did; 0: no worker did
}

// over reports whether a process got the lock after the death.
func (d *death) over() bool { return d.next > 0 }

// recovery returns how long no worker had the lock.
func (d *death) recovery() time.Duration { return d.next - d.at }

// finish puts the timeline in order when all spans are known.
func (t *timeline) finish(length time.Duration) {
	t.length = length
	slices.SortFunc(t.spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.worker, b.worker))
	})
	if t.death == nil {
		return
	}
	for _, s := range t.spans {
		if s.from > t.death.at && s.worker != t.death.worker {
			t.death.successor, t.death.next = s.worker, s.from
			return
		}
	}
}

// crowd returns the largest number of goroutines that were in the critical section at once in that time. If one leaves at the
// moment when another enters, they do not meet.
func (t *timeline) crowd(from, to time.Duration) (most int) {
	for _, s := range t.spans {
		at, inside := max(s.from, from), 0 // the maximum is reached when a goroutine has just entered
		if at >= min(s.to, to) {
			continue
		}
		for _, other := range t.spans {
			if other.from <= at && at < other.to {
				inside++
			}
		}
		most = max(most, inside)
	}
	return most
}

// ticks returns the marks of a time axis: about five, at round numbers.
func ticks(length time.Duration) []time.Duration {
	step := 100 * time.Millisecond
	for _, next := range []time.Duration{200, 500, 1000, 2000, 5000} {
		if length/step > 8 {
			step = next * time.Millisecond
		}
	}
	var all []time.Duration
	for at := time.Duration(0); at <= length; at += step {
		all = append(all, at)
	}
	return all
}

// inSeconds formats d as people write it.
func inSeconds(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// A chart draws a timeline in characters. The labels beside it take textMargin columns.
type chart struct {
	*timeline
	style cli.Style
	width int // columns of the timeline itself
}

const (
	textMargin = 12
	textMost   = 66 // columns, so that everything fits into 80
	textLeast  = 12
)

// text draws the timeline for a terminal of that width. Each worker has a row. A cell is the darker, the more of its time the
// worker was in the critical section. Remarks follow below.
func (t *timeline) text(s cli.Style, width int) string {
	c := &chart{t, s, max(min(width-textMargin-2, textMost), textLeast)}
	crowded := bytes.Repeat([]byte(" "), c.width)
	for column := range crowded {
		if t.crowd(c.at(column), c.at(column+1)) > 1 {
			crowded[column] = '!'
		}
	}
	var b strings.Builder
	for w := range workerCount {
		fmt.Fprintf(&b, "   worker %d ", w+1)
		for column, mark := range crowded {
			b.WriteString(c.cell(w, column, mark == '!'))
		}
		b.WriteByte('\n')
	}
	if bytes.ContainsRune(crowded, '!') {
		fmt.Fprintf(&b, "   at once  %s\n", s.Paint(cli.Red, string(crowded)))
	}
	if t.death != nil {
		fmt.Fprintf(&b, "            %s\n", s.Paint(cli.Red, c.deathRow()))
	}
	fmt.Fprintf(&b, "            %s\n", s.Paint(cli.Dim, c.axis()))
	return b.String()
}

// at returns when the time of a column begins.
func (t *chart) at(column int) time.Duration {
	return t.length * time.Duration(column) / time.Duration(t.width)
}

// column returns the column of a time.
func (t *chart) column(at time.Duration) int {
	return min(int(at*time.Duration(t.width)/max(t.length, 1)), t.width-1)
}

// cell draws a column of a worker.
func (t *chart) cell(worker, column int, crowded bool) string {
	s, from, to := t.style, t.at(column), t.at(column+1)
	if d := t.death; d != nil && d.worker == worker && d.at < to {
		if d.at >= from {
			return s.Paint(cli.Red, s.Pick("✗", "X"))
		}
		return " "
	}
	var inside time.Duration
	for _, sp := range t.spans {
		if sp.worker == worker {
			inside += max(min(sp.to, to)-max(sp.from, from), 0)
		}
	}
	if inside == 0 {
		return s.Paint(cli.Dim, s.Pick("·", " "))
	}
	shades := strings.Split(s.Pick("░▒▓█", ".-=#"), "")
	shade := shades[min(int(inside*4/max(to-from, 1)), 3)]
	if crowded {
		return s.Paint(cli.Red, shade)
	}
	return s.Paint(cli.Blue, shade)
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
	bracket := func(inside string) string {
		line := strings.Repeat(s.Pick("─", "-"), max(to-from-1-len(inside), 0))
		return s.Pick("╰", "+") + inside + line + s.Pick("╯", "+")
	}
	switch {
	case to-from-1 >= len(told)+2:
		return strings.Repeat(" ", from) + bracket(" "+told+" ")
	case to+1+len(told) < t.width:
		return strings.Repeat(" ", from) + bracket("") + " " + told
	}
	return strings.Repeat(" ", max(from-1-len(told), 0)) + told + " " + bracket("")
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
