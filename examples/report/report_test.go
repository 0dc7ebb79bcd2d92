package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

func TestNoReportIsTornUnderTheLockAndReadersShareIt(t *testing.T) {
	pool := redistest.Start(t).Pool()
	locked, err := publish(t.Context(), pool, true)
	require.NoError(t, err)
	assert.Zero(t, locked.torn)
	assert.Greater(t, locked.together, int64(1))
	assert.Positive(t, locked.reads)

	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, pool))
	assert.Contains(t, out.String(), "with an RWMutex:")
}
