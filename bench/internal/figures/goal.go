package figures

import (
	"fmt"
	"math"
)

// A Goal is what ours is meant to reach.
type Goal struct {
	Case    string // in the words of the table
	What    string // is measured
	AtLeast bool   // Limit is the least that will do, otherwise the most
	Limit   float64
	value   func(*Book) map[int]float64 // by round
}

// A Verdict is a goal and what became of it.
type Verdict struct {
	Goal
	Summary
}

// Met reports whether the median reaches the goal; not if nothing was measured.
func (v Verdict) Met() bool {
	if v.AtLeast {
		return v.Median >= v.Limit
	}
	return v.Median <= v.Limit
}

// Word says what became of the goal.
func (v Verdict) Word() string {
	switch {
	case v.Rounds == 0:
		return "not run"
	case v.Met():
		return "met"
	}
	return "missed"
}

// Wanted is the goal in signs.
func (g Goal) Wanted() string {
	sign := "≤"
	if g.AtLeast {
		sign = "≥"
	}
	return fmt.Sprintf("%s %g", sign, g.Limit)
}

// Judge holds the book to the goals.
func (b *Book) Judge(goals []Goal) []Verdict {
	all := make([]Verdict, len(goals))
	for i, g := range goals {
		all[i] = Verdict{g, summarize(g.value(b))}
	}
	return all
}

// One is a side of a comparison: a metric of the best of some libraries, round by round.
type One struct {
	Case      string
	Metric    Metric
	Libraries []string
	Smallest  bool // the best is the one with the least
}

func (o One) rounds(b *Book) map[int]float64 {
	best := make(map[int]float64)
	for _, library := range o.Libraries {
		for round, v := range b.Rounds(Row{o.Case, library}, o.Metric) {
			if was, ok := best[round]; !ok || (v < was) == o.Smallest {
				best[round] = v
			}
		}
	}
	return best
}

// Alone is a goal for a figure, divided by scale.
func Alone(o One, scale float64) func(*Book) map[int]float64 {
	return func(b *Book) map[int]float64 {
		values := o.rounds(b)
		for round := range values {
			values[round] /= scale
		}
		return values
	}
}

// Ratio is a goal for a figure divided by another. Each round is compared with itself: what disturbs
// the machine for longer than a round disturbs both alike.
func Ratio(over, under One) func(*Book) map[int]float64 {
	return func(b *Book) map[int]float64 {
		ratios := make(map[int]float64)
		unders := under.rounds(b)
		for round, v := range over.rounds(b) {
			if u, ok := unders[round]; ok && u != 0 && !math.IsNaN(v/u) {
				ratios[round] = v / u
			}
		}
		return ratios
	}
}

// NewGoal makes a goal of its parts.
func NewGoal(name, what string, least bool, limit float64, value func(*Book) map[int]float64) Goal {
	return Goal{name, what, least, limit, value}
}
