package lock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// The test looks between the end of the hold and the end of its lease. No caller can time that.
func TestALockThatIsBeingReleasedIsNotIdle(t *testing.T) {
	t.Parallel()
	e := New([]server.Pool{redistest.Start(t).Pool()})
	t.Cleanup(func() { e.Close(time.Second) })
	terms := &server.Terms{Kind: server.Mutex, TTL: time.Hour, Timeout: 10 * time.Second, Fence: server.NoFence}
	h := &Hold{Observer: untold{}}
	r := e.Lock(t.Context(), &Call{Key: "k", Terms: terms, Pause: func(int) time.Duration { return time.Millisecond }}, h)
	require.Nil(t, r.Failure)
	infos := e.Infos()
	require.Len(t, infos, 1)
	assert.False(t, infos[0].Idle)
	h.grant.mu.Lock()
	h.grant.remove(h)
	h.grant.close()
	h.grant.mu.Unlock()
	assert.Empty(t, e.Infos())
}
