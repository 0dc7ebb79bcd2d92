package topologies_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cacheaside"
	"github.com/redimutex/redimutex/internal/locktest"
)

// fetcher returns a function that fetches a key as a process does that has just started, and reports whether it loaded the
// value.
func fetcher(t *testing.T, pool redimutex.Pool) func(key string) (loaded bool) {
	t.Helper()
	cache := cacheaside.New(locktest.Client(t, pool), cacheaside.NewRedisStore(pool, time.Hour))
	return func(key string) (loaded bool) {
		t.Helper()
		v, err := cacheaside.Fetch(patience(t), cache, key, func(context.Context) (string, error) {
			loaded = true
			return "the value of " + key, nil
		})
		require.NoError(t, err, key)
		require.Equal(t, "the value of "+key, v)
		return loaded
	}
}

func TestClusterFirstFetchOfAProcessFindsTheNode(t *testing.T) {
	t.Parallel()
	_, pool := startCluster(t)
	for i := range 20 { // whichever node each process asks first
		key := fmt.Sprint("k", i)
		assert.True(t, fetcher(t, pool())(key))
		assert.False(t, fetcher(t, pool())(key), "it was cached on the node of its slot")
	}
}

func TestClusterFetchesWhileASlotIsMoved(t *testing.T) {
	t.Parallel()
	c, pool := startCluster(t)
	fetch := fetcher(t, pool())
	assert.True(t, fetch("k"))
	to := (c.Owner("k") + 1) % 3
	c.Move("k", to, func() {
		assert.True(t, fetch("k"), "what is not where it was is loaded")
	})
	assert.False(t, fetch("k"), "the value has moved")
}
