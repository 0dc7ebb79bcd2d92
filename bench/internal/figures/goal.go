package figures

import (
	"fmt"
	"strconv"
)

// A Goal is what ours is meant to reach in a case.
type Goal struct {
	Ours        string
	Metric      Metric
	Over        []string // the figure is divided by that of the best of these in the same round; the first has its name in the tables
	Holds       float64  // else it is divided by so many holds, each as long as the holds of that round were, if it is not 0
	Least, Most float64  // one of them is the goal
}

// What says what is measured.
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

// Wanted is the goal in signs.
func (g Goal) Wanted() string {
	if g.Least != 0 {
		return fmt.Sprintf("≥ %g", g.Least)
	}
	return fmt.Sprintf("≤ %g", g.Most)
}

// Met reports whether the median reaches the goal, to three digits; not if nothing was measured.
func (g Goal) Met(s Summary) bool {
	shown, _ := strconv.ParseFloat(strconv.FormatFloat(s.Median, 'g', 3, 64), 64)
	if g.Least != 0 {
		return shown >= g.Least
	}
	return shown <= g.Most
}

// Judge returns what was measured. Each round is compared with itself: what disturbs the machine for longer than a round
// disturbs both alike.
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

// Change is what another book has for a row, divided by what this one has, round by round.
func (b *Book) Change(after *Book, r Row, m Metric) Summary {
	values := make(map[int]float64)
	for round, was := range b.figures[r][m] {
		if is, ok := after.figures[r][m][round]; ok && was != 0 {
			values[round] = is / was
		}
	}
	return summarize(values)
}
