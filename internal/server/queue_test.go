package server_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// listen subscribes to a channel. heard returns the messages so far.
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

// waiting returns a request of a caller that waits in the queue.
func waiting(key, token, channel string) *hold {
	q := queued(key)
	q.Token, q.Try.Queues = token, true
	q.Extras = server.Extras{Channel: channel, HandOff: 20 * time.Second}
	return q
}

// wait tries once, with a place in the queue, and keeps the time of arrival.
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

// If a script failed halfway, the lock would stay locked, or the waiter would be called without getting the lock.
func TestAFullServerReleasesALockAndHandsItOn(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
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
			assert.False(t, r.Exists("k"))
			assert.False(t, r.Exists(server.QueueKey("k")))
		}
	}
}

// lose makes the next script run, and loses its reply.
func lose(b *redistest.Between) {
	b.Set(func(command redistest.Command) (any, error) {
		if command.Name != "EVALSHA" {
			return command.Run()
		}
		b.Set(nil)
		_, _ = command.Run()
		return nil, context.DeadlineExceeded
	})
}

// A Cluster, or a managed one, may refuse to send the message from a script.
func TestALockWhoseMessageIsRefusedIsLeftFree(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	r := redistest.Start(t)
	s := open(t, r.Pool())
	holder, other := queued("k"), waiting("k", "other", "here")
	done(t, acquire(s, holder))
	wait(t, s, other)
	r.Do("ACL", "SETUSER", "default", "-publish")
	done(t, release(s, holder))
	assert.False(t, r.Exists("k"), "it was given to a waiter that nothing has told")
	done(t, acquire(s, other))
}

// The other keys of the lock may contain anything. That is not the fault of the lock.
func TestALockIsReleasedThoughTheMarksAreNone(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	q := queued("k")
	q.Kind, q.Want, q.Extras.Channel = server.Writer, "w", "redimutex:me"
	done(t, acquire(s, q))
	_, writers, _, _ := server.PhaseKeys("k")
	r.Do("SET", writers, "no set")
	failed(t, release(s, q))
	assert.False(t, r.Exists("k"))
}

// of turns a request into one for a lock of that kind.
func (q *hold) of(kind *server.Kind) *hold {
	q.Kind, q.Want = kind, cmp.Or(kind.Want, "1")
	return q
}

// The lock of the other kind is gone. Its waiter must not be called: it could not hold the lock that it would be given.
func TestAWaiterForALockOfAnotherKindIsNotInTheWay(t *testing.T) {
	t.Parallel()
	for _, other := range []*server.Kind{server.Mutex, server.Writer, server.Reader} {
		for kind, waits := range map[*server.Kind]*server.Kind{server.Semaphore: other, other: server.Semaphore} {
			t.Run("a "+waits.Name+" in that of a "+kind.Name, func(t *testing.T) {
				t.Parallel()
				r, s := start(t)
				heard := listen(t, r, "here")
				holder, waiter := queued("k").of(waits), waiting("k", "waiter", "here").of(waits)
				if waits == server.Reader { // another reader would simply read beside it
					holder.of(server.Writer)
				}
				done(t, acquire(s, holder))
				wait(t, s, waiter)
				r.Do("DEL", "k")
				next := queued("k").of(kind)
				done(t, acquire(s, next))
				got := acquire(s, waiter)
				failed(t, got)
				assert.ErrorContains(t, got.Err, "a lock of another kind")
				done(t, release(s, next))
				assert.Empty(t, heard())
				assert.False(t, r.Exists(server.QueueKey("k")))
			})
		}
	}
}

func TestAUserWhoMayNotCountTheQueueIsNotInIt(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	r := redistest.Start(t)
	s := open(t, r.Pool())
	done(t, acquire(s, queued("k")))
	r.Do("ACL", "SETUSER", "default", "-zcard")
	failed(t, acquire(s, waiting("k", "other", "here")))
	assert.False(t, r.Exists(server.QueueKey("k")))
}

func TestAWriterWhoMayNotEntitleReadersGetsNoLock(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	for _, command := range []string{"zunionstore", "zrem", "pexpire"} {
		r := redistest.Start(t)
		s := open(t, r.Pool())
		_, _, marks, entitled := server.PhaseKeys("k")
		r.Do("ZADD", marks, time.Now().Add(time.Minute).UnixMicro(), "the mark of a reader")
		r.Do("PEXPIRE", marks, 60000)
		r.Do("ACL", "SETUSER", "default", "-"+command)
		q := request("k")
		q.Kind, q.Want = server.Writer, "w"
		failed(t, acquire(s, q))
		assert.False(t, r.Exists("k"), command)
		assert.NotEqual(t, time.Duration(-1), r.PTTL(entitled), command)
	}
}

// All waiters of a process share one mark.
func TestALateReleaseLeavesTheMarkOfTheNextWaiterAlone(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	b := redistest.NewBetween(r.Pool())
	s := open(t, b)
	writer := request("k")
	writer.Kind, writer.Want = server.Writer, "w"
	done(t, acquire(s, writer))
	reader := func() *hold {
		q := request("k")
		q.Kind, q.Want, q.Timeout = server.Reader, "r", time.Second
		q.Extras.Channel, q.Try.Shows = "the mark", time.Minute
		return q
	}
	require.Equal(t, server.Held, acquire(s, reader()).Verdict) // now the server knows the script
	lose(b)
	first, next := reader().claim(s), reader().claim(s)
	failed(t, first.Try(t.Context(), reader().Try))
	first.Drop()
	require.Equal(t, server.Held, next.Try(t.Context(), reader().Try).Verdict)
	again := time.Now().Add(2500 * time.Millisecond)
	redistest.Wait(t, "the second release of the first", func() bool { return time.Now().After(again) })
	_, _, _, entitled := server.PhaseKeys("k")
	assert.NotNil(t, r.Do("ZSCORE", entitled, "the mark"))
}

// The mark belongs to the process. By then it is that of the next reader: the grant, or an extension after a hand-off, has
// removed that of the first.
func TestTheReleaseOfALostReaderLeavesTheMarkOfTheNext(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	for _, handed := range []bool{false, true} {
		key := fmt.Sprint("handed ", handed)
		reader := func() *hold {
			q := queued(key)
			q.Kind, q.Want, q.Extras.Channel, q.Try.Shows = server.Reader, "r", "redimutex:me", time.Minute
			return q
		}
		first := reader()
		c := held(t, s, first)
		if handed {
			c = foreign(s, first)
			s.Extend(t.Context(), time.Now(), []server.Extension{{Claim: c, TTL: first.TTL}}, func(_ int, got server.Reply) { done(t, got) })
		}
		readers, _, _, entitled := server.PhaseKeys(key)
		r.Do("DEL", key, readers)
		writer := queued(key)
		writer.Kind, writer.Want = server.Writer, "w"
		done(t, acquire(s, writer))
		require.Equal(t, server.Held, acquire(s, reader()).Verdict)
		require.True(t, r.Exists(entitled))
		c.Release(t.Context(), time.Now(), time.Time{})
		assert.True(t, r.Exists(entitled), key)
	}
}
