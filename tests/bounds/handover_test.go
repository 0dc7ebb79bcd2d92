package bounds_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// HandOver gives the commands of the hold that are under way half of its time to end.
func TestAHandOverTakesANodeTimeoutThoughAnExtensionHangs(t *testing.T) {
	t.Parallel()
	const node = time.Second
	f := redistest.NewFront(t, redistest.Start(t))
	m := locktest.Mutex(t, f.Pool(), "k", redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(node))
	require.NoError(t, m.LockContext(t.Context(), 0))
	f.Hang(redistest.AtReply)
	var extending sync.WaitGroup
	defer extending.Wait()
	l := m.Lease()
	extending.Go(func() { l.Extend(t.Context(), time.Hour) }) //nolint:errcheck // no answer comes
	redistest.Wait(t, "the extension", func() bool { return f.Hung() > 0 })
	for _, call := range []string{"first", "repeat"} {
		lateness := redistest.MeasureLateness()
		began := time.Now()
		_, err := l.HandOver(t.Context(), time.Minute)
		took := time.Since(began)
		require.ErrorIs(t, err, redimutex.ErrUnavailable, call)
		assert.LessOrEqual(t, took, node+tolerance+lateness.Stop(), call)
	}
}
