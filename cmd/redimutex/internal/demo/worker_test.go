package demo

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A worker that was stopped for longer than its lease may wake up while the next one is at work.
func TestAWorkerThatComesTooLateWasInTheCriticalSectionNoLongerThanItsLease(t *testing.T) {
	t.Parallel()
	c, err := openCounter(filepath.Join(t.TempDir(), "counter"))
	require.NoError(t, err)
	t.Cleanup(c.close)
	require.NoError(t, c.write(0))
	until := time.Now().Add(-time.Minute)
	for _, ok := range []bool{false, true} {
		var out bytes.Buffer
		h := &demoHand{counter: c, out: json.NewEncoder(&out)}
		began := time.Now()
		require.NoError(t, h.raise(t.Context(), 0, func() (time.Time, bool) { return until, ok }))
		var enter, leave event
		told := json.NewDecoder(&out)
		require.NoError(t, told.Decode(&enter))
		require.NoError(t, told.Decode(&leave))
		if ok {
			assert.Equal(t, eventDone, leave.Kind)
			assert.GreaterOrEqual(t, leave.At, began.UnixNano())
		} else {
			assert.Equal(t, eventGivenUp, leave.Kind)
			assert.Equal(t, until.UnixNano(), leave.At)
		}
	}
	n, err := c.read()
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}
