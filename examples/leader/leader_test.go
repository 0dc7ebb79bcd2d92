//go:build unix

package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/examples/internal/crew"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) {
	if crew.Hired() {
		os.Exit(crew.Work(campaign))
	}
	os.Exit(m.Run())
}

func TestFollowersTakeOverFromALeaderThatIsKilledResignsOrIsPaused(t *testing.T) {
	var out bytes.Buffer
	e, err := run(t.Context(), &out, redistest.Start(t).URL())
	t.Log(out.String())
	require.NoError(t, err)
	ends := make(map[string]int)
	for n, term := range e.terms {
		ends[term.end] = n
		if n > 0 {
			assert.Greater(t, term.fence, e.terms[n-1].fence)
		}
	}
	killed, paused := ends["killed"], ends["paused for longer than its lease"]
	require.Greater(t, paused, killed+1, "a leader resigns between the two")
	for _, term := range e.terms[killed+1:] {
		assert.NotEqual(t, e.terms[killed].leader, term.leader, "the dead don't lead")
	}
	assert.True(t, e.terms[paused].told, "who was paused has to be told")
	assert.Less(t, paused, len(e.terms)-1, "another takes over from who was paused")
}
