package lock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// Close comes between the end of the hold and the request. No caller can time that.
func TestAHandOverThatCloseOvertakesReleasesTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := New([]server.Pool{s.Pool()})
	terms := &server.Terms{Kind: server.Mutex, TTL: time.Hour, Timeout: 10 * time.Second, Fence: server.NoFence}
	h := &Hold{Observer: untold{}}
	r := e.Lock(t.Context(), &Call{Key: "k", Terms: terms, Pause: func(int) time.Duration { return time.Millisecond }}, h)
	require.Nil(t, r.Failure)
	h.AfterEnd(func() { e.Close(time.Second) })
	again, reason, f := h.HandOver(t.Context(), "token", time.Minute)
	assert.Nil(t, again)
	assert.Equal(t, keepalive.Unlocked, reason)
	assert.Equal(t, quorum.Closed, f.Kind)
	assert.Empty(t, s.Keys())
}
