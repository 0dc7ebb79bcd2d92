package servers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

// holds plays the short version of a row, and holds it to what the table says.
func holds(t *testing.T, row evidence.Row) {
	t.Helper()
	if !redistest.Installed() {
		t.Skip("needs a real redis-server or valkey-server on the PATH: miniredis can't be paused, nor refuse in all these ways")
	}
	const seed = 1
	result, err := row.Run(t.Context(), evidence.Setup{Seed: seed, Time: row.Short, Dir: t.TempDir()})
	require.NoError(t, err)
	for _, f := range result.Figures {
		t.Log(f)
	}
	for _, n := range result.Notes {
		t.Log(n)
	}
	assert.True(t, result.OK(), "seed %d", seed)
}

func TestPausedMinorityStopsNobody(t *testing.T)                       { holds(t, minorityRow()) }
func TestPausedMajorityIsWaitedForNoLongerThanTheContext(t *testing.T) { holds(t, majorityRow()) }
func TestPausedServerIsWaitedForNoLongerThanTheContext(t *testing.T)   { holds(t, onlyServerRow()) }
func TestDroppedPathLeavesNoOrphan(t *testing.T)                       { holds(t, droppedPathRow()) }
func TestPausedServerLeavesNoOrphan(t *testing.T)                      { holds(t, resumedRow()) }
func TestUnlockWithACancelledContextReleases(t *testing.T)             { holds(t, cancelledRow()) }
func TestReplyAfterTheLeaseIsNoLock(t *testing.T)                      { holds(t, lateReplyRow()) }
