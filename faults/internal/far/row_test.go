package far

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/turns"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestFarClientsGetTheirTurns(t *testing.T) {
	row := Rows()[0]
	row.Hold(t, row.Short/2)
}

// A queue that was recorded, of one client near and one far.
func recorded(all ...turns.Turn) *queue {
	return &queue{members: []member{{}, {roundTrip: 200 * time.Millisecond}}, turns: all}
}

var began = time.Now()

// had is a turn from asking to Unlock's return, in milliseconds.
func had(who, asked, got, freed int) turns.Turn {
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	return turns.Turn{Who: who, RoundTrip: recorded().members[who].roundTrip, Asked: at(asked), Got: at(got), Freed: at(freed)}
}

func TestAWaitInWhichAnotherHasTwoTurnsIsOutOfOrder(t *testing.T) {
	warmUp := []turns.Turn{had(1, -900, -800, -790), had(1, -700, -600, -590), had(0, -500, -490, -480), had(0, -470, -460, -450)}
	// The far one asks at 0, so the server knows at 100. It is given the lock at 300, and knows at 400.
	for name, c := range map[string]struct {
		near  []turns.Turn
		order bool
	}{
		"nobody":              {nil, true},
		"one each":            {[]turns.Turn{had(0, 110, 150, 160)}, true},
		"before it was there": {[]turns.Turn{had(0, 10, 20, 30), had(0, 40, 50, 60), had(0, 70, 200, 290)}, true},
		"after its turn":      {[]turns.Turn{had(0, 110, 150, 160), had(0, 170, 500, 510)}, true},
		"two turns":           {[]turns.Turn{had(0, 110, 150, 160), had(0, 170, 200, 210)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			all := append(append(warmUp, c.near...), had(1, 0, 400, 410))
			o := recorded().order(all)
			if c.order {
				assert.Zero(t, o.passed)
			} else {
				assert.Equal(t, 1, o.passed)
				assert.Equal(t, 2, o.most)
			}
		})
	}
}

func TestOneOverlapIsFound(t *testing.T) {
	ok := func(r report, judged bool) bool { return evidence.Result{Figures: r.figures(judged)}.OK() }
	r := report{holds: 1000, counts: make([]int, len(roundTrips)), order: order{waits: 10}}
	assert.True(t, ok(r, true))
	r.clashes = 1
	assert.False(t, ok(r, false))
	r.clashes, r.order.passed = 0, 1
	assert.False(t, ok(r, true))
	r.order.passed = 0
	r.costs = []cost{{with: turns.Pace{Near: 94, Time: time.Second, Turns: 10}, without: turns.Pace{Near: 100, Time: time.Second}}}
	r.late = time.Millisecond / 2
	assert.Equal(t, 6*time.Millisecond, r.costs[0].more().Round(time.Microsecond))
	assert.False(t, ok(r, true))
	r.late = 2 * time.Millisecond
	assert.True(t, ok(r, true), "it was the machine")
}
