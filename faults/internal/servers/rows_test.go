package servers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

// holds plays the short version of a row, and holds it to what the table says. failing are peers that
// are known not to: that the row shows it is what says that it would show it of us.
func holds(t *testing.T, row evidence.Row, failing ...string) {
	t.Helper()
	needServers(t)
	const seed = 1
	result, err := row.Run(t.Context(), evidence.Setup{Seed: seed, Time: row.Short, Dir: t.TempDir()})
	require.NoError(t, err)
	for _, note := range result.Notes {
		t.Log(note)
	}
	failed := map[string]bool{}
	for _, f := range result.Figures {
		t.Log(f)
		failed[f.Library] = f.Held < f.Tried
	}
	assert.True(t, result.OK(), "seed %d", seed)
	for _, peer := range failing {
		assert.True(t, failed[peer], "the row does not show that %s fails", peer)
	}
}

func needServers(t *testing.T) {
	t.Helper()
	if !redistest.Installed() {
		t.Skip("needs a real redis-server or valkey-server on the PATH: miniredis can't be paused, nor refuse in all these ways")
	}
}

func TestPausedMinorityStopsNobody(t *testing.T) {
	holds(t, minorityRow(), "redsync")
}

func TestPausedMajorityIsWaitedForNoLongerThanTheContext(t *testing.T) {
	holds(t, majorityRow(), "redsync")
}

func TestPausedServerIsWaitedForNoLongerThanTheContext(t *testing.T) {
	holds(t, onlyServerRow(), "redsync", "redislock")
}

func TestDroppedPathLeavesNoOrphan(t *testing.T) {
	holds(t, droppedPathRow(), "redsync", "redislock")
}

func TestPausedServerLeavesNoOrphan(t *testing.T) {
	holds(t, resumedRow(), "redsync", "redislock")
}

func TestUnlockWithACancelledContextReleases(t *testing.T) {
	holds(t, cancelledRow(), "redsync", "redislock")
}

func TestReplyAfterTheLeaseIsNoLock(t *testing.T) {
	holds(t, lateReplyRow(), "redislock")
}

func TestRefusedOperationsTellOrRepeatAndNeverHoldFalsely(t *testing.T) {
	holds(t, refusalsRow())
}

func TestBrokenConnectionsLeaveNothingBehind(t *testing.T) {
	holds(t, leaksRow(), "redsync with FailFast")
}
