package failover

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

// What is lost without WithReplicas shows that it would be seen if something were lost with it.
func TestFailoverLosesNoLockThatAReplicaConfirmed(t *testing.T) {
	if !redistest.Installed() {
		t.Skip("needs a real redis-server or valkey-server on the PATH: miniredis has no replicas")
	}
	row := Rows()[0]
	r, err := row.Run(context.Background(), evidence.Setup{Seed: 1, Time: row.Short, Dir: t.TempDir()})
	require.NoError(t, err)
	for _, n := range r.Notes {
		t.Log(n)
	}
	lost := map[string]int{}
	for _, f := range r.Figures {
		t.Log(f)
		assert.True(t, f.OK(), f.String())
		assert.Greater(t, f.Tried, 100, f.Library)
		lost[f.Library] = f.Tried - f.Held
	}
	assert.True(t, r.OK())
	for _, library := range []string{async, "redsync", "redislock"} {
		assert.Positive(t, lost[library], library)
	}
	assert.Zero(t, lost[withReplicas])
}
