package server_test

import (
	"strconv"
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

// take acquires and releases, and returns the fence of the hold.
func take(t *testing.T, s *server.Server, key string) int64 {
	t.Helper()
	q := request(key)
	q.Fence = server.NextFence
	got := acquire(s, q)
	done(t, got)
	require.Positive(t, got.Fence)
	done(t, release(s, q))
	return got.Fence
}

func TestFencesRiseWhateverIsLost(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	other := open(t, r.Pool())
	last := int64(0)
	rises := func(what string) {
		t.Helper()
		for _, from := range []*server.Server{s, other, s} {
			fence := take(t, from, "k")
			require.Greater(t, fence, last, what)
			last = fence
		}
	}
	rises("at first")
	r.Do("DEL", server.FenceKey("k"))
	rises("after the counter was deleted")
	r.Do("FLUSHALL")
	rises("after all data was lost")
	ahead := last + int64(time.Hour/time.Microsecond)
	r.Do("SET", server.FenceKey("k"), ahead)
	last = ahead
	rises("with a counter that is ahead of the clock")
	if r.IsReal() {
		r.Restart()
		s, other = open(t, r.Pool()), open(t, r.Pool()) // the old connections are broken
		last -= int64(time.Hour / time.Microsecond)     // the counter that was ahead is lost
		rises("after a restart without data")
	}
}

func TestAFenceCounterExpires(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	take(t, s, "k")
	left := pttl(t, r, server.FenceKey("k"))
	assert.Greater(t, left, 30*time.Minute)
	assert.LessOrEqual(t, left, 2*time.Hour)
	q := request("k")
	done(t, raise(s, q, 1))
	assert.Positive(t, pttl(t, r, server.FenceKey("k")))
}

func TestAHeldLockGivesNoFence(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	first, second := request("k"), request("k")
	first.Fence, second.Fence = server.NextFence, server.NextFence
	done(t, acquire(s, first))
	counter := r.Get(server.FenceKey("k"))
	got := acquire(s, second)
	require.Equal(t, server.Held, got.Verdict)
	assert.Equal(t, first.Token, got.Holder)
	assert.Greater(t, got.Left, 30*time.Second)
	assert.Equal(t, counter, r.Get(server.FenceKey("k")))
}

func TestRaiseLiftsTheCounterAndNeverLowersIt(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	q := request("k")
	for _, c := range []struct{ to, want int64 }{{5, 5}, {3, 5}, {5, 5}, {1 << 52, 1 << 52}, {6, 1 << 52}} {
		done(t, raise(s, q, c.to))
		assert.Equal(t, strconv.FormatInt(c.want, 10), r.Get(server.FenceKey("k")))
	}
	assert.Equal(t, int64(1<<52+1), take(t, s, "k"))
}

func TestACorruptCounterIsAnErrorAndNoLock(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	r.Do("SET", server.FenceKey("k"), "rubbish")
	q := request("k")
	q.Fence = server.NextFence
	failed(t, acquire(s, q))
	assert.False(t, exists(t, r, "k"))
}

// A server that came up without data may have forgotten a lock; it votes again when that must have
// expired.
func TestAGuardedServerDoesNotVoteBeforeATTLHasPassed(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	q := request("k")
	q.Guard, q.TTL = true, 500*time.Millisecond
	for range 2 { // the first try learns nothing; the second time the guard is restarted
		began := time.Now()
		refusals := 0
		redistest.Wait(t, "the server votes", func() bool {
			got := acquire(s, q)
			if got.Verdict == server.Done {
				return true
			}
			refusals++
			assert.ErrorContains(t, got.Err, "GUARD")
			assert.False(t, server.Permanent(got.Err))
			return false
		})
		assert.Positive(t, refusals)
		assert.GreaterOrEqual(t, time.Since(began), q.TTL)
		assert.Equal(t, q.Token, r.Get("k"))
		r.Do("FLUSHALL")
	}
}

// Its clock was an hour ahead when it began, and is right now.
func TestAGuardedServerWhoseClockWasSetBackAbstainsForOneTTL(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	q := request("k")
	q.Guard, q.TTL = true, 500*time.Millisecond
	r.Do("SET", "redimutex:guard", time.Now().Add(time.Hour).UnixMicro())
	began := time.Now()
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

func TestALockThatTooFewReplicasHaveIsGivenBack(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t)
	s := open(t, r.Pool())
	q := request("k")
	q.Replicas = replicas(20 * time.Millisecond)
	c := q.claim(s)
	got := c.Try(t.Context(), q.try())
	failed(t, got)
	require.ErrorContains(t, got.Err, "0 of the 1 wanted replicas")
	assert.False(t, server.Permanent(got.Err))
	c.ReleaseLater(time.Time{})
	redistest.Wait(t, "the lock is given back", func() bool { return !exists(t, r, "k") })

	held := request("k")
	done(t, acquire(s, held))
	held.Replicas = replicas(20 * time.Millisecond)
	failed(t, one(s, held))
	assert.Equal(t, held.Token, r.Get("k"), "an extension that does not count keeps the lock")
}

func TestALockThatAReplicaHasCounts(t *testing.T) {
	t.Parallel()
	primary, followers := redistest.Replicas(t, 1)
	replica := followers[0]
	s := open(t, primary.Pool())
	q := request("k")
	q.Replicas = replicas(10 * time.Second)
	done(t, acquire(s, q))
	assert.Equal(t, q.Token, replica.Get("k"))
	done(t, one(s, q))

	replica.Pause()
	q = request("other")
	q.Replicas = replicas(50 * time.Millisecond)
	c := q.claim(s)
	failed(t, c.Try(t.Context(), q.try()))
	c.ReleaseLater(time.Time{})
	replica.Resume()
	redistest.Wait(t, "the lock is given back", func() bool { return !exists(t, primary, "other") })
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
