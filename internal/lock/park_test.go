package lock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// A reader that has just found the grant joins it between the two checks of the release. No caller can time that.
func TestAReaderHasEndedWhereAnotherJoinsDuringItsRelease(t *testing.T) {
	t.Parallel()
	e := New([]server.Pool{redistest.Start(t).Pool()})
	t.Cleanup(func() { e.Close(time.Second) })
	terms := &server.Terms{
		Kind: server.Reader, Want: "r", TTL: time.Hour, Timeout: 10 * time.Second, Fence: server.NoFence, Reuse: time.Minute,
	}
	first, second := &Hold{Observer: untold{}}, &Hold{Observer: untold{}}
	r := e.Lock(t.Context(), &Call{Key: "k", Terms: terms, Pause: func(int) time.Duration { return time.Millisecond }}, first)
	require.Nil(t, r.Failure)
	g, now := first.grant, time.Now()
	require.False(t, g.park(first, now.Add(terms.Reuse)), "its time is over")
	require.True(t, g.adopt(terms, second))
	reason, f := first.end(t.Context(), now, nil)
	assert.Equal(t, keepalive.Unlocked, reason)
	assert.Nil(t, f)
	assert.Equal(t, keepalive.Unlocked, first.Reason())
	assert.Equal(t, keepalive.Alive, second.Reason())
	reason, f = second.Release(t.Context(), now.Add(terms.Reuse))
	assert.Equal(t, keepalive.Unlocked, reason)
	assert.Nil(t, f)
}
