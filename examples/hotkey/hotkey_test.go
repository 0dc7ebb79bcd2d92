package main

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

// Virtual time makes the herd arrive at one moment, and the figures the same on every machine.
func TestTheDatabaseIsAskedOnceWithTheLockAndByEverybodyWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		pools := []*redis.Pool{pool, pool, pool, pool}

		without, err := herd(t.Context(), pools, false)
		require.NoError(t, err)
		assert.EqualValues(t, servers*requests, without.loads)

		with, err := herd(t.Context(), pools, true)
		require.NoError(t, err)
		assert.EqualValues(t, 1, with.loads)
		assert.Less(t, with.slowest, 2*query)

		assert.NoError(t, run(t.Context(), io.Discard, pools))
		time.Sleep(2 * time.Second) // in virtual time: a store keeps its worker for a second
	})
}
