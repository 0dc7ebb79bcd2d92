package wakeup_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
	"github.com/redimutex/redimutex/internal/wakeup"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// newHub returns a Hub that is closed at the end of the test, with its server.
func newHub(t *testing.T, pool server.Pool) *wakeup.Hub {
	s := server.New(pool)
	h := wakeup.NewHub(s)
	t.Cleanup(func() {
		h.Close(time.Minute)
		s.Close(time.Minute)
	})
	return h
}

// listeners returns how many connections listen to the Hub's channel.
func listeners(t *testing.T, s *redistest.Server, h *wakeup.Hub) int {
	t.Helper()
	v, err := redis.Values(s.Do("PUBSUB", "NUMSUB", h.Channel()), nil)
	require.NoError(t, err)
	n, err := redis.Int(v[1], nil)
	require.NoError(t, err)
	return n
}

// told returns what the waiter was told, if anything: one that joined when the connection was up was told nothing.
func told(w *wakeup.Waiter) (wake wakeup.Wake) {
	select {
	case wake = <-w.Wake():
	default:
	}
	return wake
}

func TestMessageReachesTheWaiterThatItNames(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	h := newHub(t, s.Pool())
	w, other := h.Join("a name with spaces"), h.Join("other")
	require.True(t, h.Listen(context.Background()))
	assert.Equal(t, wakeup.Wake{}, <-w.Wake(), "what was published before is lost: look")
	assert.Equal(t, wakeup.Wake{}, told(other))
	for _, rubbish := range []string{"", " ", "7", "7 ", "other", "x other", "7  other", "7 nobody"} {
		s.Do("PUBLISH", h.Channel(), rubbish)
	}
	s.Do("PUBLISH", h.Channel(), "7 a name with spaces")
	assert.Equal(t, wakeup.Wake{Fence: 7, Granted: true}, <-w.Wake())
	assert.Empty(t, other.Wake())
	for i := range 3 {
		s.Do("PUBLISH", h.Channel(), fmt.Sprintf("%d a name with spaces", i))
	}
	s.Do("PUBLISH", h.Channel(), "0 other")
	assert.Equal(t, wakeup.Wake{Granted: true}, <-other.Wake(), "without fencing")
	assert.Equal(t, wakeup.Wake{Fence: 2, Granted: true}, <-w.Wake(), "the newest counts")
	assert.Empty(t, w.Wake())
	w.Leave()
	other.Leave()
}

func TestHubListensAgainAfterABreakAndHasWaitersLook(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	h := newHub(t, s.Pool())
	w := h.Join("w")
	for i := range uint64(5) {
		redistest.Wait(t, "the waiter is told to look, and messages arrive", func() bool {
			return (<-w.Wake() == wakeup.Wake{}) && h.Listening()
		})
		assert.Equal(t, i, h.Drops())
		assert.Equal(t, 1, listeners(t, s, h))
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		redistest.Wait(t, "the break is noticed", func() bool { return h.Drops() > i })
	}
	w.Leave()
}

// What was published while no subscriber listened is lost: the waiter looks when the break comes, not only
// when it is fixed.
func TestAWaiterLooksWhenTheSubscriptionIsLost(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	h := newHub(t, s.Pool())
	w := h.Join("w")
	require.True(t, h.Listen(t.Context()))
	assert.Equal(t, wakeup.Wake{}, <-w.Wake())
	s.Kill()
	assert.Equal(t, wakeup.Wake{}, <-w.Wake())
	assert.False(t, h.Listening())
	assert.Equal(t, uint64(1), h.Drops())
	w.Leave()
}

// A grant says more than that something may have been missed.
func TestAnAlarmDoesNotReplaceAGrant(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	h := newHub(t, s.Pool())
	w, other := h.Join("w"), h.Join("other")
	require.True(t, h.Listen(t.Context()))
	<-w.Wake()
	told(other)
	s.Do("PUBLISH", h.Channel(), "7 w")
	s.Do("PUBLISH", h.Channel(), "7 other")
	<-other.Wake()
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	<-other.Wake()
	assert.Equal(t, wakeup.Wake{Fence: 7, Granted: true}, <-w.Wake())
	w.Leave()
	other.Leave()
}

func TestHubRestsWhenNobodyHasWaitedForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, p := redistest.Virtual(t)
		h := newHub(t, p)
		h.Join("first").Leave()
		w := h.Join("w")
		time.Sleep(time.Minute) // virtual
		assert.Len(t, m.PubSubChannels("*"), 1, "it listens while a goroutine waits")
		w.Leave()
		time.Sleep(4 * time.Second) // virtual
		assert.Len(t, m.PubSubChannels("*"), 1, "and a little longer")
		h.Join("again").Leave()
		time.Sleep(4 * time.Second) // virtual
		assert.Len(t, m.PubSubChannels("*"), 1)
		time.Sleep(2 * time.Second) // virtual
		synctest.Wait()
		assert.Empty(t, m.PubSubChannels("*"))
		assert.False(t, h.Listening())
		w = h.Join("later")
		require.True(t, h.Listen(t.Context()))
		assert.Len(t, m.PubSubChannels("*"), 1)
		w.Leave()
	})
}

func TestHubThatIsStartedAndStoppedAllTheTimeListensInTheEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for range 30 {
		h := newHub(t, s.Pool())
		w := h.Join("w")
		if !h.Listen(t.Context()) {
			t.Fatal("not listening")
		}
		w.Leave()
		h.Close(time.Minute)
		assert.False(t, h.Listening())
		h.Join("too late").Leave()
		assert.False(t, h.Listen(t.Context()), "none waits for a Hub that is closed")
		redistest.Wait(t, "the connection is closed", func() bool { return listeners(t, s, h) == 0 })
	}
}

func TestHubKnowsThatItHearsNothing(t *testing.T) {
	t.Parallel()
	dead := redistest.FreeAddr(t)
	h := newHub(t, &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", dead) }})
	defer h.Join("w").Leave()
	assert.False(t, h.Listen(t.Context()))
}

func TestListenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	s.Pause()
	defer s.Resume()
	h := newHub(t, s.Pool())
	defer h.Join("w").Leave()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.False(t, h.Listen(ctx))
}

// shown is a pool of another make, which shows the pool that it is made of.
type shown struct{ *redis.Pool }

// secret is one that does not.
type secret struct{ pool *redis.Pool }

func (p secret) Get() redis.Conn { return p.pool.Get() }

func TestASubscriptionTakesNoConnectionOfAPool(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	inner := s.Pool()
	inner.MaxActive = 1
	h := newHub(t, shown{inner})
	w := h.Join("w")
	require.True(t, h.Listen(t.Context()))
	s.Do("PUBLISH", h.Channel(), "2 w")
	redistest.Wait(t, "the message", func() bool { return (<-w.Wake()).Fence == 2 })
	assert.Zero(t, inner.ActiveCount())
	h = newHub(t, secret{inner})
	defer h.Join("w").Leave()
	assert.False(t, h.Listen(t.Context()), "its waiters poll")
	assert.Zero(t, inner.ActiveCount())
}

func TestCloseWaitsForAServerThatHangsNoLongerThanItWasTold(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	h := newHub(t, s.Pool())
	h.Join("w")
	require.True(t, h.Listen(t.Context()))
	s.Pause()
	closed := make(chan struct{})
	go func() {
		h.Close(10 * time.Millisecond)
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("Close waits for the server")
	}
	s.Resume()
}

func TestHubConnectsNoMoreOftenThanOnceASecondToAServerThatRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		h := newHub(t, &redis.Pool{Dial: func() (redis.Conn, error) {
			dials.Add(1)
			return nil, errors.New("no")
		}})
		w := h.Join("w")
		time.Sleep(time.Minute) // virtual
		assert.Less(t, dials.Load(), int32(70))
		assert.Greater(t, dials.Load(), int32(50))
		w.Leave()
	})
}
