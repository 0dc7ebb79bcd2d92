package bounds

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/redistest"
	calls "github.com/redimutex/redimutex/internal/redistest/bounds"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestNoCallLastsAsLongAsItsServerHangs(t *testing.T) {
	redistest.Needs(t, redistest.ACL)
	assert.Len(t, Rows()[0].Hold(t, 0).Figures, len(calls.Ways()), "every way comes soon")
}

// One call in thousands that outlasts its bound makes the row fail. The lateness of the machine excuses no more than itself.
func TestOneCallThatOutlastsItsBoundIsFound(t *testing.T) {
	kind, verb := calls.Kinds()[0], calls.Verbs()[0]
	outcome := func(timed bool, c calls.Cell, late time.Duration) bool {
		var y tally
		good := make([]*calls.Cell, 1000)
		for i := range good {
			good[i] = &calls.Cell{Kind: kind, Verb: verb, Over: -time.Millisecond}
		}
		y.add(good, 0, timed)
		c.Kind, c.Verb = kind, verb
		y.add([]*calls.Cell{&c}, late, timed)
		return y.figure("x").OK()
	}
	const late = 20 * time.Millisecond
	assert.True(t, outcome(true, calls.Cell{Over: limit + late}, late))
	assert.False(t, outcome(true, calls.Cell{Over: limit + late + 1}, late))
	assert.True(t, outcome(false, calls.Cell{Over: limit + late + 1}, late), "times are judged in the long version alone")
	assert.False(t, outcome(false, calls.Cell{Over: shortPatience, Overtime: true}, late))
	assert.True(t, outcome(true, calls.Cell{Unready: "the machine is busy", Over: time.Hour}, 0), "it was never made")
}
