package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/bench/internal/figures"
	"github.com/redimutex/redimutex/bench/internal/work"
)

func TestTheTurnsOfAFarProcessAreTakenOffTheTimeOfTheOthers(t *testing.T) {
	const ms = int64(time.Millisecond)
	turn := func(who int, got, freed int64) work.Span {
		return work.Span{Goroutine: who, Got: got * ms, Freed: freed * ms}
	}
	j := work.Job{RoundTrip: 200 * time.Millisecond}
	result := func(spans ...work.Span) work.Result { return work.Result{Elapsed: time.Second, Spans: spans} }
	row := figures.Row{Case: "far", Library: beside}
	b := figures.NewBook()
	takeFar(b, row, 0, &j, []work.Result{
		result(turn(0, 0, 10), turn(0, 220, 230)),
		result(turn(1, 110, 320)), // at the server from 10 to 220
	})
	assert.InDelta(t, 100, b.Of(row, figures.NearRate).Median, .001)
	assert.InDelta(t, 210, b.Of(row, figures.FarTurn).Median, .001)
}
