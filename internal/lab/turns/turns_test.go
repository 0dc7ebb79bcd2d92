package turns_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/lab/turns"
)

const ms = time.Millisecond

// had is a turn of a client from having the lock to Unlock's return, in milliseconds.
func had(roundTrip time.Duration, got, freed int) turns.Turn {
	at := func(n int) time.Time { return time.Unix(0, 0).Add(time.Duration(n) * ms) }
	return turns.Turn{RoundTrip: roundTrip, Asked: at(got), Got: at(got), Freed: at(freed)}
}

func rate(all []turns.Turn) float64 {
	var p turns.Pace
	p.Add(slices.Clone(all))
	return p.Rate()
}

func TestTheRateOfTheOthersIsCountedInTheTimeThatTheFarOneLeavesThem(t *testing.T) {
	// Eleven turns of the near one, and one of the far one: 10 ms and a round trip, as the server sees it from 110 to 320.
	var all []turns.Turn
	for i := range 11 {
		all = append(all, had(0, i*10, i*10+10))
	}
	all = append(all, had(200*ms, 210, 420), had(0, 320, 330))
	assert.Equal(t, 210*ms, all[11].Own())
	// From the end of the first to that of the last are 320 ms, 210 of them the far one's, and 11 turns.
	assert.InDelta(t, 11/.11, rate(all), .001)
	all[12].Freed = all[12].Freed.Add(110 * ms) // a hand-off that no process took
	assert.InDelta(t, 11/.22, rate(all), .001)
	assert.Zero(t, rate(all[:1]), "one turn is no pace")
}
