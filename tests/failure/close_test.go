package failure_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// The readers of a process try together. After Close nothing runs in the background, so the one that tried releases all of
// them before it returns: at the same time, or each would cost a node timeout.
func TestReadersThatCloseEndsDoNotWaitForASilentServerOnceForEach(t *testing.T) {
	t.Parallel()
	const (
		readers     = 40
		nodeTimeout = 200 * time.Millisecond
	)
	s := redistest.Real(t)
	front := redistest.NewFront(t, s)
	pool, err := redimutex.NewPool("redis://" + front.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { pool.Close() })
	client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithTTL(2*time.Second), redimutex.WithNodeTimeout(nodeTimeout))
	s.Do("SET", "key", "another holder", "PX", time.Hour.Milliseconds())
	ended := make(chan error, readers)
	for range readers {
		m := client.RWMutex("key")
		go func() { ended <- m.RLockContext(t.Context(), 0) }()
	}
	redistest.Wait(t, "all wait", func() bool { return client.Stats().Waiting == readers })
	front.Hang(redistest.AtReply)
	redistest.Wait(t, "a try hangs", func() bool { return front.Hung() > 0 })
	began := time.Now()
	require.NoError(t, client.Close())
	for range readers {
		require.ErrorIs(t, <-ended, redimutex.ErrClosed)
	}
	assert.Less(t, time.Since(began), readers*nodeTimeout/2)
}
