package hungnode

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestANodeThatHangsCostsNoLeaseOfTheOthers(t *testing.T) {
	Rows()[0].Hold(t, 0)
}

func TestOneLeaseThatIsLostOrNotToldIsFound(t *testing.T) {
	ok := func(kept, told int) bool {
		r := report{healthy: evidence.Figure{Held: kept, Tried: 600}, behind: evidence.Figure{Held: told, Tried: 300}}
		return evidence.Result{Figures: r.figures()}.OK()
	}
	assert.True(t, ok(600, 300))
	assert.False(t, ok(599, 300))
	assert.False(t, ok(600, 299))
}
