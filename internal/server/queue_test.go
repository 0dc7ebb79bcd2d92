package server_test

import (
	"context"
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
	q.Rest = server.Rest{Channel: channel, HandOff: 20 * time.Second}
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

func TestAWaiterLearnsHowManyWait(t *testing.T) {
	t.Parallel()
	_, s := start(t)
	holder := queued("k")
	done(t, acquire(s, holder))
	first, second := waiting("k", "1", "x"), waiting("k", "2", "x")
	assert.Equal(t, 1, wait(t, s, first).Waiting)
	assert.Equal(t, 2, wait(t, s, second).Waiting)
	assert.Equal(t, 2, wait(t, s, first).Waiting, "one that looks again counts once")
	assert.Zero(t, acquire(s, queued("k")).Waiting, "who has no ticket does not count")
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
	redistest.Needs(t, redistest.ACL)
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
