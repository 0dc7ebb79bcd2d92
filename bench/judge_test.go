package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/bench/internal/figures"
)

func TestARoundIsComparedWithItselfAndTheBestSettingsCount(t *testing.T) {
	b := figures.NewBook()
	add := func(library string, values ...float64) {
		for round, v := range values {
			b.Add(figures.Row{Case: "c", Library: library}, figures.Rate, round, v)
		}
	}
	add("ours", 10, 100, 20)
	add("slow", 1, 1, 1)
	add("fast", 5, 25) // its third round has failed, so the slow one is the best of that
	of := func(libraries ...string) figures.One {
		return figures.One{Case: "c", Metric: figures.Rate, Libraries: libraries}
	}
	judge := func(least bool, limit float64) figures.Verdict {
		return b.Judge([]figures.Goal{figures.NewGoal("c", "x", least, limit, figures.Ratio(of("ours"), of("slow", "fast")))})[0]
	}
	v := judge(atLeast, 4)
	assert.Equal(t, figures.Summary{Median: 4, Least: 2, Most: 20, Rounds: 3}, v.Summary)
	assert.Equal(t, "met", v.Word())
	assert.Equal(t, "missed", judge(atLeast, 4.1).Word())
	assert.Equal(t, "met", judge(atMost, 4).Word())
	assert.Equal(t, "missed", judge(atMost, 3.9).Word())

	nothing := figures.NewGoal("c", "x", atMost, 1, figures.Alone(of("nobody"), 1))
	assert.Equal(t, "not run", b.Judge([]figures.Goal{nothing})[0].Word())
	assert.True(t, math.IsNaN(b.Of(figures.Row{Case: "c", Library: "nobody"}, figures.Rate).Median))
}

func TestCasesAreChosenByNameOrByTheirBeginning(t *testing.T) {
	names := func(choice string) (all []string) {
		chosen, err := choose(choice)
		require.NoError(t, err)
		for _, c := range chosen {
			all = append(all, c.name)
		}
		return all
	}
	assert.Equal(t, caseNames(), names(""))
	assert.Equal(t, []string{"procs1"}, names("procs1"), "not procs16")
	assert.Equal(t, []string{"procs1", "procs4", "procs16", "procs64"}, names("procs"))
	assert.Equal(t, []string{"own1", "handover"}, names("handover, own1"))
	_, err := choose("nonsense")
	assert.ErrorContains(t, err, "own64")
}

func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{
		1234567.8: "1,234,568", 999.4: "999", 1000: "1,000", 12.34: "12.3", 1.234: "1.23", 0.1234: "0.12", 3: "3", -1: "-1", 0: "0",
	} {
		assert.Equal(t, want, number(v))
	}
	assert.Equal(t, "–", number(math.NaN()))
}
