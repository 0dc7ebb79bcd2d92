package figures

import (
	"fmt"
	"strconv"
)

// A Goal is what redimutex is meant to reach in a case.
type Goal struct {
	Ours        string
	Metric      Metric
	Over        []string // the figure is divided by the best figure of these libraries in the same round; tables name the first
	Holds       float64  // if not 0, and Over is empty: the figure is divided by the time of this many holds of the same round
	Least, Most float64  // the goal: one of the two, the other is 0
}

// What returns what is measured, in words.
func (g Goal) What() string {
	what := string(g.Metric)
	switch {
	case len(g.Over) > 0:
		what += " / " + g.Over[0]
	case g.Holds != 0:
		what += fmt.Sprintf(" / %g holds", g.Holds)
	}
	return what
}

// Wanted returns the goal, such as "≥ 2".
func (g Goal) Wanted() string {
	if g.Least != 0 {
		return fmt.Sprintf("≥ %g", g.Least)
	}
	return fmt.Sprintf("≤ %g", g.Most)
}

// Met reports whether the median, rounded to three digits, reaches the goal. It does not if nothing was measured.
func (g Goal) Met(s Summary) bool {
	shown, _ := strconv.ParseFloat(strconv.FormatFloat(s.Median, 'g', 3, 64), 64)
	if g.Least != 0 {
		return shown >= g.Least
	}
	return shown <= g.Most
}

// Judge returns what was measured for a goal. A figure is only compared with figures of the same round: if something disturbs
// the machine for longer than a round, it disturbs both libraries.
func (b *Book) Judge(name string, g Goal) Summary { return summarize(b.rounds(name, g)) }

func (b *Book) rounds(name string, g Goal) map[int]float64 {
	unders := b.best(name, g.Metric, g.Over)
	holds, values := b.figures[Row{name, g.Ours}][Hold], make(map[int]float64)
	for round, v := range b.figures[Row{name, g.Ours}][g.Metric] {
		under := 1.0
		switch {
		case len(g.Over) > 0:
			under = unders[round]
		case g.Holds > 0:
			under = g.Holds * holds[round]
		}
		if under != 0 {
			values[round] = v / under
		}
	}
	return values
}

// Change divides, round by round, the figures of a row in after by those in b.
func (b *Book) Change(after *Book, r Row, m Metric) Summary {
	values := make(map[int]float64)
	for round, was := range b.figures[r][m] {
		if is, ok := after.figures[r][m][round]; ok && was != 0 {
			values[round] = is / was
		}
	}
	return summarize(values)
}
