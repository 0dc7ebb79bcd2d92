package lock

import (
	"runtime"
	"slices"
	"strings"
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

// A call has found the grant, and its time has not passed. What ends the grant comes before the call can add its hold. No
// caller can time that.
func TestAHoldOfAGrantThatEndsMeanwhileEndsToo(t *testing.T) {
	t.Parallel()
	e := New([]server.Pool{redistest.Start(t).Pool()})
	t.Cleanup(func() { e.Close(time.Second) })
	c := Call{Key: "k", Terms: &server.Terms{Kind: server.Mutex, Want: "m", TTL: time.Hour, Timeout: 10 * time.Second, Reuse: time.Minute}}
	key := e.ref(&c)
	meanwhile := func(ends func(g *Grant)) (h *Hold, adopted bool) {
		g := key.newGrant(&c)
		g.reuse = &reuse{until: time.Now().Add(time.Hour)}
		// The loss of this lease is told to untold, as if Lost had listed the holds already.
		require.True(t, e.keeper.Start(&g.lease, keepalive.Terms{Until: time.Now().Add(time.Hour), TTL: time.Hour, Holder: untold{}}))
		h = &Hold{Observer: untold{}}
		done := make(chan bool, 1)
		g.mu.Lock()
		go func() { done <- g.adopt(c.Terms, h) }()
		redistest.Wait(t, "the call waits for the mutex of the grant", func() bool {
			all := make([]byte, 1<<20)
			return slices.ContainsFunc(strings.Split(string(all[:runtime.Stack(all, true)]), "\n\n"), func(stack string) bool {
				return strings.Contains(stack, "[sync.Mutex.Lock") && strings.Contains(stack, t.Name())
			})
		})
		ends(g)
		g.mu.Unlock()
		return h, <-done
	}
	_, adopted := meanwhile((*Grant).close)
	assert.False(t, adopted, "its release has begun")
	h, adopted := meanwhile(func(g *Grant) { g.lease.End(keepalive.Deleted, time.Now()) })
	assert.True(t, adopted)
	assert.Equal(t, keepalive.Deleted, h.noticed())
}
