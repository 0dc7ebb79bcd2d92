package server_test

import (
	"strings"
	"testing"
	"testing/synctest"
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

func TestARaiseNeverLowersAFence(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	q := request("k")
	for _, fence := range []int64{10, 5} {
		done(t, raise(s, q, fence))
		assert.Equal(t, "10", r.Get(server.FenceKey("k")))
	}
}

// The clock was an hour ahead when the server began, and is right now; or another client has overwritten the mark.
func TestAGuardedServerWhoseMarkIsNoTimeInThePastAbstainsForOneTTL(t *testing.T) {
	t.Parallel()
	for _, mark := range []any{time.Now().Add(time.Hour).UnixMicro(), "x", ""} {
		r, s := start(t)
		q := request("k")
		q.Guard, q.TTL = true, 500*time.Millisecond
		r.Do("SET", "redimutex:guard", mark)
		began := time.Now()
		redistest.Wait(t, "the server votes", func() bool { return acquire(s, q).Verdict == server.Done })
		assert.GreaterOrEqual(t, time.Since(began), q.TTL)
	}
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

func TestAGuardedServerThatKeptItsDataVotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, pool := redistest.Virtual(t)
		q := request("k")
		q.Guard, q.Fence = true, server.NextFence
		s := open(t, pool)
		failed(t, acquire(s, q))
		time.Sleep(q.TTL - time.Second)
		failed(t, acquire(s, q))
		assert.False(t, m.Exists("k"))
		time.Sleep(time.Second + time.Millisecond)
		got := acquire(s, q)
		done(t, got)
		assert.Positive(t, got.Fence)
		done(t, release(s, q))
		time.Sleep(24 * time.Hour)
		done(t, acquire(open(t, pool), q)) // another process, another day
		longer := request("other")
		longer.Guard, longer.TTL = true, 48*time.Hour
		failed(t, acquire(s, longer)) // what was forgotten could live for longer than the server has
	})
}

func TestNoMoreOfAValueIsReadThanTellsWhoseItIs(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	r.Do("SET", "k", strings.Repeat("x", 1<<20))
	for _, queue := range []bool{false, true} {
		q := request("k")
		q.Queue = queue
		got := acquire(s, q)
		require.Equal(t, server.Held, got.Verdict)
		assert.Len(t, got.Holder, 320)
		assert.Equal(t, server.Taken, release(s, q).Verdict)
		assert.Equal(t, server.Taken, one(s, q).Verdict)
	}
	// A token may be longer than what is shown of it, and one that begins so is another.
	long := request("long")
	long.Token = strings.Repeat("y", 1000)
	done(t, acquire(s, long))
	longer := *long
	longer.Token += "y"
	assert.Equal(t, server.Taken, release(s, &longer).Verdict)
	shorter := *long
	shorter.Token = long.Token[:999]
	assert.Equal(t, server.Taken, release(s, &shorter).Verdict)
	done(t, one(s, long))
	done(t, release(s, long))

	// An empty value is a value.
	r.Do("SET", "empty", "")
	assert.Equal(t, server.Held, acquire(s, request("empty")).Verdict)
	assert.Equal(t, server.Taken, release(s, request("empty")).Verdict)
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

func TestAPermitExpiresByTheClockOfTheServer(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	permit := func(ttl time.Duration) *hold {
		q := request("s")
		q.Kind, q.Want, q.TTL = server.Semaphore, server.Permits(2), ttl
		return q
	}
	brief, long := permit(300*time.Millisecond), permit(time.Minute)
	done(t, acquire(s, brief))
	done(t, acquire(s, long))
	next := permit(time.Minute)
	redistest.Wait(t, "the permit has expired, though its key lives", func() bool { return acquire(s, next).Verdict == server.Done })
	assert.Equal(t, server.Missing, one(s, brief).Verdict)
	assert.Equal(t, server.Held, acquire(s, brief).Verdict)
	n, err := redis.Int(r.Do("ZCARD", "s"), nil)
	require.NoError(t, err)
	assert.Equal(t, 2, n)
}
