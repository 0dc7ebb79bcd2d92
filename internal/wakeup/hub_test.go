package wakeup_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
	closing, end := context.WithCancel(context.Background())
	h := wakeup.NewHub(closing, s)
	t.Cleanup(func() {
		end()
		h.Wait(time.Minute)
		s.Close(time.Minute)
	})
	return h
}

// told returns what the waiter was told, if anything: a waiter that joined while the connection was up is told nothing.
func told(w *wakeup.Waiter) (wake wakeup.Wake) {
	select {
	case wake = <-w.Wake():
	default:
	}
	return wake
}

// listens waits until w is told to look again. It reports whether the reason is that the Hub is subscribed now.
func listens(h *wakeup.Hub, w *wakeup.Waiter) bool {
	<-w.Wake()
	h.Join("another", "k").Leave() // waits until the Hub has told all waiters
	return h.Listening()
}

func TestMessageReachesTheWaiterThatItNames(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	h := newHub(t, s.Pool())
	w, other := h.Join("a name with spaces", "k"), h.Join("other", "k")
	require.True(t, listens(h, w))
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

// A grant says more than a request to look again.
func TestAnAlarmDoesNotReplaceAGrant(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	h := newHub(t, s.Pool())
	w, other := h.Join("w", "k"), h.Join("other", "k")
	require.True(t, listens(h, w))
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
		h.Join("first", "k").Leave()
		w := h.Join("w", "k")
		time.Sleep(time.Minute) // virtual
		assert.Len(t, m.PubSubChannels("*"), 1, "it listens while a goroutine waits")
		w.Leave()
		time.Sleep(4 * time.Second) // virtual
		assert.Len(t, m.PubSubChannels("*"), 1, "and a little longer")
		h.Join("again", "k").Leave()
		time.Sleep(4 * time.Second) // virtual
		assert.Len(t, m.PubSubChannels("*"), 1)
		time.Sleep(2 * time.Second) // virtual
		synctest.Wait()
		assert.Empty(t, m.PubSubChannels("*"))
		assert.False(t, h.Listening())
		w = h.Join("later", "k")
		require.True(t, listens(h, w))
		assert.Len(t, m.PubSubChannels("*"), 1)
		w.Leave()
	})
}

// The path may lead nowhere, and the connection may have no timeouts.
func TestAConnectionThatIsSilentBeforeItHasSubscribedIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, p := redistest.Virtual(t)
		dial, first := p.Dial, true
		p.Dial = func() (redis.Conn, error) {
			if !first {
				return dial()
			}
			first = false
			ours, theirs := net.Pipe()
			go io.Copy(io.Discard, theirs) //nolint:errcheck // it ends with ours
			return struct{ redis.Conn }{redis.NewConn(ours, 0, 0)}, nil
		}
		h := newHub(t, p)
		w := h.Join("w", "k")
		for range 10 {
			time.Sleep(time.Second) // virtual
		}
		assert.True(t, h.Listening())
		w.Leave()
	})
}

func TestHubConnectsNoMoreOftenThanOnceASecondToAServerThatRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		h := newHub(t, &redis.Pool{Dial: func() (redis.Conn, error) {
			dials.Add(1)
			return nil, errors.New("no")
		}})
		w := h.Join("w", "k")
		time.Sleep(time.Minute) // virtual
		assert.Less(t, dials.Load(), int32(70))
		assert.Greater(t, dials.Load(), int32(50))
		w.Leave()
	})
}

// follow returns a pool whose new connections go to the address in the returned pointer.
func follow(t *testing.T, addr string, opts ...redis.DialOption) (*redis.Pool, *atomic.Pointer[string]) {
	primary := new(atomic.Pointer[string])
	primary.Store(&addr)
	p := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", *primary.Load(), opts...) }}
	t.Cleanup(func() { p.Close() })
	return p, primary
}

func replicaOf(t *testing.T, s, primary *redistest.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(t, err)
	s.Do("REPLICAOF", host, port)
}

func TestAReplicaIsNoPlaceToListen(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	replicaOf(t, a, b)
	pool, primary := follow(t, a.Addr())
	dial, dials := pool.Dial, new(atomic.Int32)
	pool.Dial = func() (redis.Conn, error) {
		dials.Add(1)
		return dial()
	}
	h := newHub(t, pool)
	w := h.Join("w", "k")
	defer w.Leave()
	redistest.Wait(t, "a second dial", func() bool { return dials.Load() > 1 })
	assert.False(t, h.Listening())
	assert.Empty(t, w.Wake())
	assert.Zero(t, h.Drops(), "it was not subscribed")
	address := b.Addr()
	primary.Store(&address)
	assert.Equal(t, wakeup.Wake{}, <-w.Wake())
	assert.True(t, h.Listening())
}

// A user of locks need not have the permission for ROLE.
func TestAUserWhoMayNotAskForTheRoleListens(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	s := redistest.Start(t)
	s.SetUser("lock", "on", ">secret", "~*", "&*", "+@all", "-role")
	pool, _ := follow(t, s.Addr(), redis.DialUsername("lock"), redis.DialPassword("secret"))
	h := newHub(t, pool)
	w := h.Join("w", "k")
	defer w.Leave()
	assert.True(t, listens(h, w))
	s.Do("PUBLISH", h.Channel(), "7 w")
	assert.Equal(t, wakeup.Wake{Fence: 7, Granted: true}, <-w.Wake())
}
