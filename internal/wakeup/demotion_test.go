package wakeup_test

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
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
