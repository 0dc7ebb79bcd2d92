package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

func TestNoMoneyIsLostOrMadeUnderTheLocks(t *testing.T) {
	s := redistest.Start(t)
	sum, err := bank(t.Context(), s.Pool(), true)
	require.NoError(t, err)
	assert.Equal(t, opening*len(accounts), sum)

	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, s.Pool()))
	assert.Contains(t, out.String(), "with MutexAll")
}
