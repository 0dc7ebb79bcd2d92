package figures_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/bench/internal/figures"
)

func fill(b *figures.Book, library string, m figures.Metric, values ...float64) {
	for round, v := range values {
		b.Add(figures.Row{Case: "c", Library: library}, m, round, v)
	}
}

func TestARoundIsComparedWithItselfAndTheBestSettingsCount(t *testing.T) {
	var b figures.Book
	for _, m := range []figures.Metric{figures.Rate, figures.P99} {
		fill(&b, "ours", m, 10, 100, 20)
		fill(&b, "one", m, 1, 1, 1)
		fill(&b, "other", m, 5, 25) // its third round has failed
	}
	over := []string{"one", "other"}
	g := figures.Goal{Ours: "ours", Metric: figures.Rate, Over: over, Least: 4}
	measured := b.Judge("c", g)
	assert.Equal(t, figures.Summary{Median: 4, Least: 2, Most: 20, Rounds: 3}, measured)
	assert.True(t, g.Met(measured))
	assert.Equal(t, "holds/s / one", g.What())
	g.Least = 4.1
	assert.False(t, g.Met(measured))
	g = figures.Goal{Ours: "ours", Metric: figures.P99, Over: over, Most: 20}
	assert.InDelta(t, 20, b.Judge("c", g).Median, 0, "of times the least is the best")
	assert.True(t, g.Met(b.Judge("c", g)))
}

func TestAGoalWithoutOthersIsDividedByHolds(t *testing.T) {
	var b figures.Book
	fill(&b, "ours", figures.P99, 30)
	g := figures.Goal{Ours: "ours", Metric: figures.P99, Most: 1}
	assert.InDelta(t, 30, b.Judge("c", g).Median, 0)
	g.Holds = 4
	assert.Zero(t, b.Judge("c", g).Rounds, "it is not known how long they were")
	fill(&b, "ours", figures.Hold, 5)
	assert.InDelta(t, 1.5, b.Judge("c", g).Median, 1e-9)
	assert.Equal(t, "p99 wait ms / 4 holds", g.What())
}

func TestAGoalIsJudgedByTheMedianThatIsShown(t *testing.T) {
	g := figures.Goal{Most: 2}
	assert.True(t, g.Met(figures.Summary{Median: 2.004}), "2.00")
	assert.False(t, g.Met(figures.Summary{Median: 2.006}), "2.01")
}

func TestWhatWasNotMeasuredMeetsNoGoal(t *testing.T) {
	var b figures.Book
	fill(&b, "ours", figures.Rate, math.NaN())
	for _, g := range []figures.Goal{
		{Ours: "ours", Metric: figures.Rate, Most: 1}, {Ours: "ours", Metric: figures.Rate, Least: 1},
	} {
		assert.False(t, g.Met(b.Judge("c", g)))
	}
	assert.False(t, b.Measured(figures.Row{Case: "c", Library: "ours"}))
}

func TestAVersionIsComparedWithAnotherRoundByRound(t *testing.T) {
	var before, after figures.Book
	fill(&before, "ours", figures.Rate, 10, 100, 7)
	fill(&after, "ours", figures.Rate, 20, 100)
	change := before.Change(&after, figures.Row{Case: "c", Library: "ours"}, figures.Rate)
	assert.Equal(t, figures.Summary{Median: 1.5, Least: 1, Most: 2, Rounds: 2}, change)
}
