package wakeup_test

import (
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

// follow returns a pool whose new connections lead to wherever the returned pointer says.
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

// A replica passes on what is published at its primary, and its primary does not count who listens
// there: it would hand the lock to the next one.
func TestTheListenerLeavesAServerThatWasDemoted(t *testing.T) {
	t.Parallel()
	a, b := redistest.Real(t), redistest.Real(t)
	pool, primary := follow(t, a.Addr())
	s := server.New(pool)
	defer s.Close(time.Minute)
	h := wakeup.NewHub(s)
	defer h.Close(time.Minute)
	w := h.Join("w")
	defer w.Leave()
	require.True(t, h.Listen(t.Context()))
	assert.Equal(t, wakeup.Wake{}, <-w.Wake())
	assert.Equal(t, 1, listeners(t, a, h))
	terms := &server.Terms{
		Kind: server.Mutex, Want: "m", TTL: time.Minute, Timeout: 10 * time.Second, Fence: server.NextFence,
	}
	lock := server.Lock{Terms: terms, Key: "k", Token: "t"}
	require.Equal(t, server.Missing, // leaves a connection in the pool
		s.Foreign(lock).Release(t.Context(), time.Now(), time.Time{}).Verdict)

	replicaOf(t, a, b)
	address := b.Addr()
	primary.Store(&address)
	redistest.Wait(t, "a command meets the demoted server, and the listener moves", func() bool {
		var c server.Claim
		s.Claim(&c, lock)
		c.Try(t.Context(), server.Try{})
		return listeners(t, b, h) == 1 && listeners(t, a, h) == 0
	})
	redistest.Wait(t, "it is up", h.Listening)
	assert.Equal(t, uint64(1), h.Drops())
	assert.Equal(t, wakeup.Wake{}, <-w.Wake(), "messages may have been lost")
	b.Do("PUBLISH", h.Channel(), "7 w")
	redistest.Wait(t, "the message", func() bool { return (<-w.Wake()).Fence == 7 })
}

// So it is after a failover that no operation has met: no server says READONLY, and the subscription lives on.
func TestTheListenerMovesToWhereThePoolLeads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, pool := redistest.Virtual(t)
		next, nextPool := redistest.Virtual(t)
		h := newHub(t, pool)
		w := h.Join("w")
		defer w.Leave()
		assert.Equal(t, wakeup.Wake{}, <-w.Wake())
		time.Sleep(time.Minute) // virtual
		require.True(t, h.Listening())
		assert.Zero(t, h.Drops(), "it is where the pool leads")
		assert.Empty(t, w.Wake(), "what it is asked with is for no waiter")

		pool.Dial = nextPool.Dial
		redistest.Wait(t, "the idle connections are closed", func() bool {
			c := pool.Get()
			c.Send("QUIT") //nolint:errcheck // broken either way
			c.Flush()      //nolint:errcheck // same
			c.Receive()    //nolint:errcheck // same
			c.Close()
			return pool.IdleCount() == 0
		})
		redistest.Wait(t, "the listener dials again", func() bool { return h.Drops() == 1 && h.Listening() })
		assert.Equal(t, wakeup.Wake{}, told(w), "messages may have been lost")
		assert.Empty(t, old.PubSubChannels("*"))
		assert.Equal(t, []string{h.Channel()}, next.PubSubChannels("*"))
	})
}

func TestAReplicaIsNoPlaceToListen(t *testing.T) {
	t.Parallel()
	a, b := redistest.Real(t), redistest.Real(t)
	replicaOf(t, a, b)
	pool, primary := follow(t, a.Addr())
	h := newHub(t, pool)
	w := h.Join("w")
	defer w.Leave()
	assert.False(t, h.Listen(t.Context()))
	assert.Empty(t, w.Wake())
	assert.Zero(t, h.Drops(), "it was not subscribed")
	address := b.Addr()
	primary.Store(&address)
	assert.Equal(t, wakeup.Wake{}, <-w.Wake())
	assert.True(t, h.Listening())
}

// ROLE is a command that a user of locks need not have.
func TestAUserWhoMayNotAskForTheRoleListens(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ChannelRules)
	s := redistest.Real(t)
	s.Do("ACL", "SETUSER", "lock", "on", ">secret", "~*", "&*", "+@all", "-role")
	pool, _ := follow(t, s.Addr(), redis.DialUsername("lock"), redis.DialPassword("secret"))
	h := newHub(t, pool)
	w := h.Join("w")
	defer w.Leave()
	assert.True(t, h.Listen(t.Context()))
	assert.Equal(t, wakeup.Wake{}, <-w.Wake())
	s.Do("PUBLISH", h.Channel(), "7 w")
	assert.Equal(t, wakeup.Wake{Fence: 7, Granted: true}, <-w.Wake())
}
