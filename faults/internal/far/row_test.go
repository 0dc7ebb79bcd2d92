package far

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/faults/internal/load"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestFarClientsGetTheirTurns(t *testing.T) {
	row := Rows()[0]
	row.Hold(t, row.Short/2)
}

// recorded returns a queue of one near and one far client, with these turns.
func recorded(all ...turn) *queue {
	return &queue{members: []member{{}, {roundTrip: 200 * time.Millisecond}}, turns: all}
}

var began = time.Now()

// had returns a turn, from the request to the return of Unlock, with times in milliseconds.
func had(who, asked, got, freed int) turn {
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	return turn{Who: who, RoundTrip: recorded().members[who].roundTrip, Asked: at(asked), Got: at(got), Freed: at(freed)}
}

func TestAWaitInWhichAnotherHasTwoTurnsIsOutOfOrder(t *testing.T) {
	warmUp := []turn{had(1, -900, -800, -790), had(1, -700, -600, -590), had(0, -500, -490, -480), had(0, -470, -460, -450)}
	// The far one asks at 0, so the server knows at 100. The server grants it the lock at 300, and it knows at 400.
	for name, c := range map[string]struct {
		near  []turn
		order bool
	}{
		"nobody":              {nil, true},
		"one each":            {[]turn{had(0, 110, 150, 160)}, true},
		"before it was there": {[]turn{had(0, 10, 20, 30), had(0, 40, 50, 60), had(0, 70, 200, 290)}, true},
		"after its turn":      {[]turn{had(0, 110, 150, 160), had(0, 170, 500, 510)}, true},
		"two turns":           {[]turn{had(0, 110, 150, 160), had(0, 170, 200, 210)}, false},
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
	r := report{Sums: load.Sums{Holds: 1000}, counts: make([]int, len(roundTrips)), order: order{waits: 10}}
	assert.True(t, ok(r, true))
	r.Clashes = 1
	assert.False(t, ok(r, false))
	r.Clashes, r.order.passed = 0, 1
	assert.False(t, ok(r, true))
	r.order.passed = 0
	r.costs = []cost{{with: pace{Near: 94, Time: time.Second, Turns: 10}, without: pace{Near: 100, Time: time.Second}}}
	r.late = time.Millisecond / 2
	assert.Equal(t, 6*time.Millisecond, r.costs[0].more().Round(time.Microsecond))
	assert.False(t, ok(r, true))
	r.late = 2 * time.Millisecond
	assert.True(t, ok(r, true), "it was the machine")
}

func rate(all []turn) float64 {
	var p pace
	p.Add(slices.Clone(all))
	return p.Rate()
}

func TestTheRateOfTheOthersIsCountedInTheTimeThatTheFarOneLeavesThem(t *testing.T) {
	// Eleven turns of the near one, and one of the far one: 10 ms and a round trip, as the server sees it from 110 to 320.
	var all []turn
	for i := range 11 {
		all = append(all, had(0, i*10, i*10, i*10+10))
	}
	all = append(all, had(1, 210, 210, 420), had(0, 320, 320, 330))
	assert.Equal(t, 210*time.Millisecond, all[11].Own())
	// From the end of the first turn to that of the last: 320 ms, 210 of them the far one's, and 11 turns of the near one.
	assert.InDelta(t, 11/.11, rate(all), .001)
	all[12].Freed = all[12].Freed.Add(110 * time.Millisecond) // a hand-off that no process took
	assert.InDelta(t, 11/.22, rate(all), .001)
	assert.Zero(t, rate(all[:1]), "one turn is no pace")
}
