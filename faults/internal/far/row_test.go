package far

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestFarClientsGetTheirTurns(t *testing.T) {
	if !redistest.Installed() {
		t.Skip("needs a real redis-server or valkey-server on the PATH: what it measures is one")
	}
	row := Rows()[0]
	r, err := row.Run(t.Context(), evidence.Setup{Seed: 1, Time: row.Short / 2, Dir: t.TempDir()})
	require.NoError(t, err)
	for _, n := range r.Notes {
		t.Log(n)
	}
	for _, f := range r.Figures {
		t.Log(f)
	}
	assert.True(t, r.OK())
}

// A queue that was recorded, of one client near and one far.
func recorded(turns ...turn) *queue {
	return &queue{members: []member{{}, {roundTrip: 200 * time.Millisecond}}, turns: turns}
}

var began = time.Now()

// had is a turn from asking to Unlock's return, in milliseconds.
func had(who, asked, got, freed int) turn {
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	return turn{who, at(asked), at(got), at(freed)}
}

func TestAWaitInWhichAnotherHasTwoTurnsIsOutOfOrder(t *testing.T) {
	warmUp := []turn{had(1, -900, -800, -790), had(1, -700, -600, -590), had(0, -500, -490, -480), had(0, -470, -460, -450)}
	// The far one asks at 0, so the server knows at 100. It is given the lock at 300, and knows at 400.
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
			turns := append(append(warmUp, c.near...), had(1, 0, 400, 410))
			o := recorded().order(turns)
			if c.order {
				assert.Zero(t, o.passed)
			} else {
				assert.Equal(t, 1, o.passed)
				assert.Equal(t, 2, o.most)
			}
		})
	}
}

func rate(q *queue, turns []turn) float64 {
	var p pace
	p.add(q, slices.Clone(turns))
	return p.rate()
}

func TestTheRateOfTheOthersIsCountedInTheTimeThatTheFarOneLeavesThem(t *testing.T) {
	// Eleven turns of the near one, and one of the far one: 10 ms and a round trip, as the server sees it from 110 to 320.
	var turns []turn
	for i := range 11 {
		turns = append(turns, had(0, i*10, i*10, i*10+10))
	}
	turns = append(turns, had(1, 0, 210, 420), had(0, 300, 320, 330))
	q := recorded()
	assert.Equal(t, 210*time.Millisecond, q.own(turns[11]))
	// From the end of the first to that of the last are 320 ms, 210 of them the far one's, and 11 turns.
	assert.InDelta(t, 11/.11, rate(q, turns), .001)
	turns[12].freed = turns[12].freed.Add(110 * time.Millisecond) // a claim that nobody took
	assert.InDelta(t, 11/.22, rate(q, turns), .001)
}

func TestOneOverlapIsFound(t *testing.T) {
	r := report{holds: 1000, counts: make([]int, len(roundTrips)), order: order{waits: 10}}
	assert.True(t, r.result(evidence.Setup{Long: true}).OK())
	r.clashes = 1
	assert.False(t, r.result(evidence.Setup{}).OK())
	r.clashes, r.order.passed = 0, 1
	assert.False(t, r.result(evidence.Setup{Long: true}).OK())
	r.order.passed = 0
	r.costs = []cost{{with: pace{near: 94, time: time.Second, turns: 10}, without: pace{near: 100, time: time.Second}}}
	r.late = time.Millisecond / 2
	assert.Equal(t, 6*time.Millisecond, r.costs[0].more().Round(time.Microsecond))
	assert.False(t, r.result(evidence.Setup{Long: true}).OK())
	r.late = 2 * time.Millisecond
	assert.True(t, r.result(evidence.Setup{Long: true}).OK(), "it was the machine")
}
