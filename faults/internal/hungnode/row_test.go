package hungnode

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestANodeThatHangsCostsNoLeaseOfTheOthers(t *testing.T) {
	Rows()[0].Hold(t, 0)
}

func TestOneLeaseThatIsLostOrNotToldIsFound(t *testing.T) {
	ok := func(r report) bool { return evidence.Result{Figures: r.figures()}.OK() }
	require.True(t, ok(report{healthy: 600, behind: 300, told: 300}))
	assert.False(t, ok(report{healthy: 600, lost: 1, behind: 300, told: 300}))
	assert.False(t, ok(report{healthy: 600, behind: 300, told: 299}))
}
