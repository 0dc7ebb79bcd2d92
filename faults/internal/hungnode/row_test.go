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
	if !redistest.Installed() {
		t.Skip("needs a real redis-server or valkey-server on the PATH: miniredis is no cluster")
	}
	row := Rows()[0]
	r, err := row.Run(t.Context(), evidence.Setup{Seed: 1, Time: row.Short, Dir: t.TempDir()})
	require.NoError(t, err)
	for _, f := range r.Figures {
		t.Log(f)
		assert.True(t, f.OK(), f.String())
		assert.Positive(t, f.Tried, f.Library)
	}
	assert.True(t, r.OK())
}

func TestOneLeaseThatIsLostOrNotToldIsFound(t *testing.T) {
	ok := func(r report) bool { return evidence.Result{Figures: r.figures()}.OK() }
	require.True(t, ok(report{healthy: 600, behind: 300, told: 300}))
	assert.False(t, ok(report{healthy: 600, lost: 1, behind: 300, told: 300}))
	assert.False(t, ok(report{healthy: 600, behind: 300, told: 299}))
}
