package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestInspectSeesTheHolderTheTimeAndTheFence(t *testing.T) {
	s := redistest.Start(t)
	node := server.New(s.Pool())
	look := func(key string) server.View {
		t.Helper()
		v, err := node.Inspect(key, 10*time.Second)
		require.NoError(t, err)
		return v
	}
	assert.Equal(t, server.View{}, look("free"))

	s.Do("SET", "held", "token", "PX", 60000)
	s.Do("SET", server.FenceKey("held"), 42)
	v := look("held")
	assert.True(t, v.Held)
	assert.Equal(t, "token", v.Holder)
	assert.Equal(t, int64(42), v.Fence)
	assert.Positive(t, v.Left)
	assert.LessOrEqual(t, v.Left, time.Minute)

	s.Do("SET", "for ever", "")
	v = look("for ever")
	assert.True(t, v.Held, "an empty token is one")
	assert.Negative(t, v.Left)

	s.Do("SET", server.FenceKey("odd"), "not a number")
	_, err := node.Inspect("odd", 10*time.Second)
	assert.Error(t, err)
	s.Do("HSET", "hash", "field", "value")
	_, err = node.Inspect("hash", 10*time.Second)
	assert.ErrorContains(t, err, "WRONGTYPE")
}

func TestInspectNeedsNoPermissionForTheFence(t *testing.T) {
	s := redistest.Real(t)
	s.Do("SET", "job", "token", "PX", 60000)
	s.Do("ACL", "SETUSER", "reader", "on", "nopass", "~job", "+get", "+pttl")
	p := s.Pool(redis.DialUsername("reader"), redis.DialPassword("x"))
	v, err := server.New(p).Inspect("job", 10*time.Second)
	require.NoError(t, err)
	assert.Equal(t, "token", v.Holder)
}

func TestInspectEndsWithItsTimeout(t *testing.T) {
	s := redistest.Real(t)
	node := server.New(s.Pool())
	_, err := node.Inspect("job", 10*time.Second)
	require.NoError(t, err)
	s.Pause()
	defer s.Resume()
	began := time.Now()
	_, err = node.Inspect("job", 50*time.Millisecond)
	assert.True(t, server.TimedOut(err), err)
	assert.Less(t, time.Since(began), 10*time.Second)
}

// listen makes a process that listens on channel, until it is closed.
func listen(t *testing.T, s *redistest.Server, channel string) (closed func()) {
	t.Helper()
	c, err := redis.Dial("tcp", s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = c.Do("SUBSCRIBE", channel)
	require.NoError(t, err)
	return func() { c.Close() }
}

func queued(key, token, channel string) *server.Request {
	q := request(key)
	q.Token, q.Queue, q.Fencing, q.Channel, q.Waiter, q.Claim = token, true, true, channel, token, 150*time.Millisecond
	return q
}

const (
	tokenA = "f47ac10b-58cc-4372-a567-0e02b2c3d479 a"
	tokenB = "f47ac10b-58cc-4372-a567-0e02b2c3d480 b: nightly backup"
	tokenC = "f47ac10b-58cc-4372-a567-0e02b2c3d481"
)

func TestInspectSeesTheQueueInOrderAndWhoIsGone(t *testing.T) {
	s := redistest.Start(t)
	node := open(t, s.Pool())
	closed := listen(t, s, "channel-c")
	done(t, node.Acquire(queued("job", tokenA, "")))
	for _, q := range []*server.Request{queued("job", tokenB, "channel-b"), queued("job", tokenC, "channel-c")} {
		require.Equal(t, server.Held, node.Acquire(q).Verdict)
	}
	listen(t, s, "channel-b")
	v, err := node.Inspect("job", 10*time.Second)
	require.NoError(t, err)
	assert.Equal(t, 2, v.Waiting)
	require.Len(t, v.Queue, 2)
	assert.Equal(t, "b: nightly backup", v.Queue[0].Owner)
	assert.Empty(t, v.Queue[1].Owner)
	assert.GreaterOrEqual(t, v.Queue[0].Since, v.Queue[1].Since, "in order of arrival")
	assert.Positive(t, v.Queue[1].Since)
	assert.Equal(t, server.Listening, v.Queue[0].Presence)
	assert.Equal(t, server.Listening, v.Queue[1].Presence)
	assert.Positive(t, v.Age)
	assert.Positive(t, v.Looked)
	assert.Less(t, v.Looked, time.Minute)

	closed()
	redistest.Wait(t, "the server knows that the second waiter is gone", func() bool {
		v, err = node.Inspect("job", 10*time.Second)
		require.NoError(t, err)
		return v.Queue[1].Presence == server.Absent
	})
	assert.Equal(t, server.Listening, v.Queue[0].Presence)

	views, err := node.InspectAll([]string{"free", "job", "job"}, 1, 10*time.Second)
	require.NoError(t, err)
	assert.False(t, views[0].Held)
	assert.Equal(t, 2, views[1].Waiting)
	assert.Len(t, views[1].Queue, 1, "as many as were asked for")
	assert.Equal(t, server.Listening, views[2].Queue[0].Presence)
	views, err = node.InspectAll([]string{"job"}, 0, 10*time.Second)
	require.NoError(t, err)
	assert.Equal(t, 2, views[0].Waiting)
	assert.Empty(t, views[0].Queue)
}

func TestInspectKnowsNoAgeButThatOfAFence(t *testing.T) {
	s := redistest.Start(t)
	node := open(t, s.Pool())
	age := func(key string) time.Duration {
		t.Helper()
		v, err := node.Inspect(key, 10*time.Second)
		require.NoError(t, err)
		return v.Age
	}
	fenced := request("fenced")
	fenced.Fencing = true
	done(t, node.Acquire(fenced))
	assert.Positive(t, age("fenced"))
	assert.Less(t, age("fenced"), time.Minute)

	done(t, node.Release(fenced))
	assert.Zero(t, age("fenced"), "nobody holds it")

	done(t, node.Acquire(request("plain")))
	assert.Zero(t, age("plain"))

	s.Do("SET", "counted", "token", "PX", 60000)
	s.Do("SET", server.FenceKey("counted"), 42)
	assert.Zero(t, age("counted"), "a counter that is no time")
	s.Do("SET", server.FenceKey("counted"), time.Now().Add(time.Hour).UnixMicro())
	assert.Zero(t, age("counted"), "a clock that was set back")
}

func TestInspectOfManyKeysTakesTwoRoundTripsAtMost(t *testing.T) {
	s := redistest.Real(t)
	node := open(t, s.Pool())
	var keys []string
	for i := range 50 {
		keys = append(keys, fmt.Sprint("k", i))
		done(t, node.Acquire(queued(keys[i], fmt.Sprint(tokenA, i), "")))
		require.Equal(t, server.Held, node.Acquire(queued(keys[i], fmt.Sprint(tokenB, i), fmt.Sprint("channel-", i%5))).Verdict)
	}
	s.Do("HSET", "hash", "field", "value")
	m := s.Monitor()
	views, err := node.InspectAll(append(keys, "hash"), 10, 10*time.Second)
	require.NoError(t, err)
	for i := range keys {
		assert.Equal(t, fmt.Sprint(tokenA, i), views[i].Holder)
		require.NoError(t, views[i].Err)
		assert.Equal(t, server.Absent, views[i].Queue[0].Presence)
	}
	require.ErrorContains(t, views[50].Err, "WRONGTYPE", "one key that is no lock does not hide the others")
	numsub := m.Executed("PUBSUB", "NUMSUB")
	require.Len(t, numsub, 1)
	assert.Equal(t, 5, strings.Count(numsub[0], "channel-"), "each channel once")
	for _, line := range m.Lines() {
		assert.NotRegexp(t, `(?i)\] "(set|del|eval|evalsha|zadd|pexpire|keys)"`, line)
	}
}

func TestInspectTellsWhatTheUserMaySee(t *testing.T) {
	s := redistest.Real(t)
	node := open(t, s.Pool())
	done(t, node.Acquire(queued("job", tokenA, "")))
	require.Equal(t, server.Held, node.Acquire(queued("job", tokenB, "channel")).Verdict)
	s.Do("ACL", "SETUSER", "reader", "on", "nopass", "~*", "resetchannels", "-@all", "+get", "+pttl", "+zcard", "+zrange", "+time")
	reader := server.New(s.Pool(redis.DialUsername("reader"), redis.DialPassword("x")))
	v, err := reader.Inspect("job", 10*time.Second)
	require.NoError(t, err)
	assert.Positive(t, v.Age)
	require.Len(t, v.Queue, 1)
	assert.Equal(t, server.PresenceUnknown, v.Queue[0].Presence, "without PUBSUB NUMSUB")
	s.Do("ACL", "SETUSER", "reader", "+pubsub|numsub", "-time")
	v, err = reader.Inspect("job", 10*time.Second)
	require.NoError(t, err)
	assert.Zero(t, v.Age, "without TIME")
	assert.Equal(t, server.Absent, v.Queue[0].Presence)
}
