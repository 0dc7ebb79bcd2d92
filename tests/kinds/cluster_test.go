package kinds_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// All keys of an RWMutex are in one slot.
func TestInAClusterReadersAndWritersWaitForEachOther(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := cluster.Nodes[cluster.Owner("k")]
	for name, opts := range ways {
		opts := append(opts, redimutex.WithFencing())
		a, b, c := process(t, s, opts), process(t, s, opts), process(t, s, opts)
		first := start(t, a.RAcquire).get(t)
		writer := start(t, b.Acquire)
		shown(t, s, "writers", 1)
		reader := start(t, c.RAcquire)
		shown(t, s, "waiting", 1)
		release(t, first)
		w := writer.get(t)
		assert.Greater(t, w.Fence(), first.Fence(), name)
		require.NoError(t, w.Downgrade(t.Context()))
		assert.Equal(t, w.Fence(), reader.get(t).Fence(), name)
		release(t, w)
		release(t, reader.lease)
		assert.False(t, s.Exists("k"))
		withTTLs(t, s)
	}
}
