package server_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestACorruptCounterIsAnErrorAndNoLock(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	r.Do("SET", server.FenceKey("k"), "rubbish")
	q := request("k")
	q.Fence = server.NextFence
	failed(t, acquire(s, q))
	assert.False(t, exists(t, r, "k"))
}

// Its clock was an hour ahead when it began, and is right now.
func TestARaiseNeverLowersAFence(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	q := request("k")
	for _, fence := range []int64{10, 5} {
		done(t, raise(s, q, fence))
		assert.Equal(t, "10", r.Get(server.FenceKey("k")))
	}
}

func TestAGuardedServerWhoseClockWasSetBackAbstainsForOneTTL(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	q := request("k")
	q.Guard, q.TTL = true, 500*time.Millisecond
	r.Do("SET", "redimutex:guard", time.Now().Add(time.Hour).UnixMicro())
	began := time.Now()
	require.ErrorContains(t, acquire(s, q).Err, "votes again in 500 ms")
	redistest.Wait(t, "the server votes", func() bool { return acquire(s, q).Verdict == server.Done })
	assert.GreaterOrEqual(t, time.Since(began), q.TTL)
}

func TestAKeptLockStaysForNoLessThanAsked(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, _ *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		q.Keep = 5*time.Millisecond + 999*time.Microsecond
		done(t, release(s, q))
		assert.Equal(t, 6*time.Millisecond, m.TTL("k"))
	})
}

func TestAUserWithoutGetrangeCanLock(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ChannelRules)
	r := redistest.Real(t)
	r.Do("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-getrange")
	s := open(t, r.Pool(redis.DialUsername("u"), redis.DialPassword("p")))
	for _, queue := range []bool{false, true} {
		q := request("k")
		q.Queue, q.Fence = queue, server.NextFence
		assert.Equal(t, server.Missing, release(s, q).Verdict)
		done(t, acquire(s, q))
		assert.Equal(t, server.Held, acquire(s, request("k")).Verdict)
		done(t, one(s, q))
		done(t, release(s, q))
	}
}
