package main

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Virtual time makes the clocks differ by exactly what the table says.
func TestTheJobRunsOncePerTickWithAMinimumHoldAndOnEveryMachineWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)

		plain, err := schedule(t.Context(), pool)
		require.NoError(t, err)
		require.Len(t, plain, ticks)
		for _, names := range plain {
			assert.Equal(t, []string{"a", "b", "c", "d"}, names)
		}

		held, err := schedule(t.Context(), pool, redimutex.WithMinHold(minHold))
		require.NoError(t, err)
		for _, names := range held {
			assert.Equal(t, []string{"a"}, names)
		}

		var out bytes.Buffer
		require.NoError(t, run(t.Context(), &out, pool))
		assert.Contains(t, out.String(), "once, by a")
	})
}
