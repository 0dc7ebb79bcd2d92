package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

func TestTheSiteSeesNoMoreDownloadsAtATimeThanThePermits(t *testing.T) {
	s := redistest.Start(t)
	without, with := new(site), new(site)
	require.NoError(t, fleet(t.Context(), s.Pool(), without, false))
	require.NoError(t, fleet(t.Context(), s.Pool(), with, true))
	assert.EqualValues(t, machines*files, without.served.Load())
	assert.EqualValues(t, machines*files, with.served.Load())
	assert.LessOrEqual(t, with.most.Load(), int64(limit))
	assert.Greater(t, with.most.Load(), int64(1))

	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, s.Pool()))
	assert.Contains(t, out.String(), "with one")
}
