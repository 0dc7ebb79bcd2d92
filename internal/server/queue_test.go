package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// listen subscribes to a channel, and returns what was said there so far.
func listen(t *testing.T, r *redistest.Server, channel string) (heard func() []string) {
	c, err := redis.Dial("tcp", r.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	subscriber := redis.PubSubConn{Conn: c}
	require.NoError(t, subscriber.Subscribe(channel))
	_, subscribed := subscriber.Receive().(redis.Subscription)
	require.True(t, subscribed)
	return func() (messages []string) {
		require.NoError(t, subscriber.Ping("so far"))
		for {
			switch m := subscriber.Receive().(type) {
			case redis.Message:
				messages = append(messages, string(m.Data))
			case redis.Pong:
				return messages
			case error:
				require.NoError(t, m)
			}
		}
	}
}

// queued is a request for a lock with a queue.
func queued(key string) *hold {
	q := request(key)
	q.Queue = true
	return q
}

// waiting is one that waits in it.
func waiting(key, token, channel string) *hold {
	q := queued(key)
	q.Token, q.Try.Queues = token, true
	q.Waiter = &server.Waiter{Channel: channel, HandOff: 20 * time.Second}
	return q
}

// wait queues, and keeps the time of arrival.
func wait(t *testing.T, s *server.Server, q *hold) server.Reply {
	t.Helper()
	got := acquire(s, q)
	require.Equal(t, server.Held, got.Verdict, "%v", got.Err)
	if q.Try.Arrived == 0 {
		q.Try.Arrived = got.Now
	}
	return got
}

func members(r *redistest.Server, key string) []string {
	all, _ := redis.Strings(r.Do("ZRANGE", server.QueueKey(key), 0, -1), nil)
	return all
}

func TestAReleaseHandsTheLockToWhoCameFirstAndListens(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	heard := listen(t, r, "here")
	holder := queued("k")
	done(t, acquire(s, holder))
	gone, first, second := waiting("k", "gone", "nowhere"), waiting("k", "first", "here"), waiting("k", "second", "here")
	for _, q := range []*hold{gone, first, second} {
		q.Fence = server.NextFence
		wait(t, s, q)
	}
	done(t, release(s, holder))
	assert.Equal(t, "first", r.Get("k"), "the waiter that does not listen is passed over")
	assert.Equal(t, []string{r.Get(server.FenceKey("k")) + " first"}, heard(), "it is told the fence, and that is the last")
	assert.Greater(t, pttl(t, r, "k"), 10*time.Second)
	assert.LessOrEqual(t, pttl(t, r, "k"), 20*time.Second, "it is given for as long as its hand-off lease")

	// It extends what it was given, or asks again if the message was lost.
	done(t, one(s, first))
	done(t, acquire(s, first))
	assert.Equal(t, server.Held, acquire(s, queued("k")).Verdict)
	done(t, release(s, first))
	assert.Equal(t, "second", r.Get("k"))
	done(t, release(s, second))
	assert.False(t, exists(t, r, "k"))
	assert.NotContains(t, r.Keys(), server.QueueKey("k"), "nothing of an empty queue stays")
}

// A waiter that leaves just when it is given the lock has to pass it on.
func TestAWaiterThatLeavesPassesOnWhatItWasGiven(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	listen(t, r, "here")
	holder, first, second := queued("k"), waiting("k", "first", "here"), waiting("k", "second", "here")
	done(t, acquire(s, holder))
	wait(t, s, first)
	wait(t, s, second)
	leaving := first.claim(s)
	require.Equal(t, server.Held, leaving.Try(t.Context(), first.try()).Verdict)
	done(t, release(s, holder))
	require.Equal(t, "first", r.Get("k"))
	done(t, leaving.Release(t.Context(), time.Now(), time.Time{}))
	assert.Equal(t, "second", r.Get("k"))
}

func TestAMessageTellsNoTime(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	heard := listen(t, r, "here")
	holder, next := queued("k"), waiting("k", "a name", "here")
	done(t, acquire(s, holder))
	wait(t, s, next)
	done(t, release(s, holder))
	assert.Equal(t, []string{"0 a name"}, heard())
}

func TestAWaiterThatLetItsGrantLapseIsTold(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	listen(t, r, "here")
	holder, slow, next := queued("k"), waiting("k", "slow", "here"), waiting("k", "next", "here")
	done(t, acquire(s, holder))
	wait(t, s, slow)
	wait(t, s, next)
	done(t, release(s, holder))
	require.Equal(t, "slow", r.Get("k"))
	r.Do("DEL", "k") // its hand-off lease is over
	got := acquire(s, slow)
	require.NoError(t, got.Err)
	assert.Equal(t, server.Lapsed, got.Verdict)
	assert.Empty(t, r.Get("k"), "something was done")
	assert.Len(t, members(r, "k"), 2, "the next one, and the mark")

	r.Do("SET", "k", "somebody else")
	slow.Try.Rejoins = true // as among several servers
	wait(t, s, slow)
	assert.Contains(t, members(r, "k")[0], "slow", "it is back in its place")
}

func TestAFreeLockIsHandedToWhoWaitsAndNotToWhoComesBy(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	listen(t, r, "here")
	holder, first := queued("k"), waiting("k", "first", "here")
	done(t, acquire(s, holder))
	wait(t, s, first)
	r.Do("DEL", "k")
	got := acquire(s, queued("k"))
	assert.Equal(t, server.Held, got.Verdict)
	assert.Equal(t, "first", got.Holder)
	done(t, acquire(s, first))

	// Whoever is first itself gets it; and if all who wait are gone, anybody does.
	wait(t, s, waiting("k", "gone", "nowhere"))
	r.Do("DEL", "k")
	done(t, acquire(s, queued("k")))
	assert.NotContains(t, r.Keys(), server.QueueKey("k"))
	next := waiting("k", "next", "nowhere")
	wait(t, s, next)
	r.Do("DEL", "k")
	done(t, acquire(s, next))
}

func TestTheLivingLookAsOftenAsThereAreLiving(t *testing.T) {
	t.Parallel()
	_, s := start(t)
	holder := queued("k")
	done(t, acquire(s, holder))
	first, second := waiting("k", "1", "x"), waiting("k", "2", "x")
	assert.Zero(t, wait(t, s, first).Gap, "nobody has looked before")
	began := time.Now()
	time.Sleep(30 * time.Millisecond)
	got := wait(t, s, second)
	assert.GreaterOrEqual(t, got.Gap, 29*time.Millisecond)
	assert.LessOrEqual(t, got.Gap, time.Since(began)+time.Second)
	got = wait(t, s, first)
	assert.Positive(t, got.Gap)
	assert.Zero(t, acquire(s, queued("k")).Gap, "who has no ticket does not count")
}

func TestAReleaseThatKeepsTheLockServesNoWaiter(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	heard := listen(t, r, "here")
	holder, other := queued("k"), waiting("k", "other", "here")
	done(t, acquire(s, holder))
	wait(t, s, other)
	holder.Keep = 20 * time.Second
	done(t, release(s, holder))
	assert.Equal(t, holder.Token, r.Get("k"), "it is nobody else's before its time")
	assert.LessOrEqual(t, pttl(t, r, "k"), 20*time.Second)
	assert.Empty(t, heard())
}

func TestAReleaseDeletesTheLockWhateverItsSiblingsAre(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	for _, queue := range []bool{false, true} {
		q := request("k")
		q.Queue, q.Fence = queue, server.NextFence
		got := acquire(s, q)
		done(t, got)
		for _, sibling := range []string{server.QueueKey("k"), server.FenceKey("k")} {
			r.Do("DEL", sibling)
			r.Do("HSET", sibling, "f", "v")
		}
		done(t, one(s, q))
		done(t, release(s, q))
		assert.False(t, exists(t, r, "k"))
		r.Do("FLUSHALL")
	}
}

// A script that fails halfway would leave the lock locked, or the waiter called and without it.
func TestAFullServerReleasesALockAndHandsItOn(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t)
	s := open(t, r.Pool())
	listen(t, r, "here")
	for _, fencing := range []bool{false, true} {
		for _, others := range []bool{false, true} {
			holder, other := queued("k"), waiting("k", "other", "here")
			holder.Fence, other.Fence = fenceIf(fencing), fenceIf(fencing)
			done(t, acquire(s, holder))
			if others {
				wait(t, s, other)
			}
			r.Do("CONFIG", "SET", "maxmemory", "1")
			got := release(s, holder)
			r.Do("CONFIG", "SET", "maxmemory", "0")
			done(t, got)
			if others {
				assert.Equal(t, "other", r.Get("k"), "the lock is the first waiter's")
				done(t, release(s, other))
			}
			assert.False(t, exists(t, r, "k"))
			assert.False(t, exists(t, r, server.QueueKey("k")))
		}
	}
}

// Whoever listens at a replica would take the lock for its own while the primary, which counted nobody, gives it to the
// next.
func TestAMessageIsHeardWhereItIsCountedAlone(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 1)
	s := open(t, primary.Pool())
	stray := listen(t, replicas[0], "stray")
	heard := listen(t, primary, "here")
	holder := queued("k")
	done(t, acquire(s, holder))
	wait(t, s, waiting("k", "stray", "stray"))
	wait(t, s, waiting("k", "first", "here"))
	done(t, release(s, holder))
	assert.Equal(t, []string{"0 first"}, heard())
	redistest.Wait(t, "the replica has the lock", func() bool { return replicas[0].Get("k") == "first" })
	assert.Empty(t, stray(), "a waiter heard of a lock that it was not given")
}

// The lock is written before anybody is told.
func TestALockIsHandedOverBeforeItsWaiterIsTold(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t)
	s := open(t, r.Pool())
	listen(t, r, "here")
	monitor := r.Monitor()
	holder := queued("k")
	done(t, acquire(s, holder))
	wait(t, s, waiting("k", "first", "here"))
	done(t, release(s, holder))
	var lines []string
	redistest.Wait(t, "the message", func() bool {
		lines = monitor.Lines()
		return strings.Contains(strings.Join(lines, "\n"), `"PUBLISH"`)
	})
	all := strings.Join(lines, "\n")
	assert.Less(t, strings.Index(all, `"SET" "k" "first"`), strings.Index(all, `"PUBLISH"`))
}

// A try without an answer may have queued its waiter. That leaves with the release, and not before.
func TestATryThatFailedCostsNoPlaceAndItsReleaseLeavesTheQueue(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t)
	b := redistest.NewBetween(r.Pool())
	s := open(t, b)
	holder, first := queued("k"), waiting("k", "first", "x")
	done(t, acquire(s, holder))
	c := first.claim(s)
	require.Equal(t, server.Held, c.Try(t.Context(), first.try()).Verdict)
	lose(b)
	failed(t, c.Try(t.Context(), first.try()))
	require.Len(t, members(r, "k"), 2, "the first waiter, and the mark")

	failing := waiting("k", "new", "x")
	failing.Timeout = time.Second
	d := failing.claim(s)
	lose(b)
	failed(t, d.Try(t.Context(), failing.try()))
	require.Len(t, members(r, "k"), 3)
	d.ReleaseLater(time.Time{})
	redistest.Wait(t, "the waiter has left", func() bool {
		all := members(r, "k")
		return len(all) == 2 && strings.HasSuffix(all[0], "first")
	})
}

// lose has the next script executed, and its reply lost.
func lose(b *redistest.Between) {
	b.Set(func(run func() (any, error), command string, _ []any) (any, error) {
		if command != "EVALSHA" {
			return run()
		}
		b.Set(nil)
		_, _ = run()
		return nil, context.DeadlineExceeded
	})
}

// A Cluster, or a managed one, may refuse the message in a script.
func TestALockWhoseMessageIsRefusedIsLeftFree(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t)
	s := open(t, r.Pool())
	holder, other := queued("k"), waiting("k", "other", "here")
	done(t, acquire(s, holder))
	wait(t, s, other)
	r.Do("ACL", "SETUSER", "default", "-publish")
	done(t, release(s, holder))
	assert.False(t, exists(t, r, "k"), "it was given to a waiter that nothing has told")
	done(t, acquire(s, other))
}
