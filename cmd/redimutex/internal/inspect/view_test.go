package inspect_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestInspectSeesTheHolderTheTimeAndTheFence(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	node := server.New(s.Pool())
	see := func(key string) inspect.View {
		t.Helper()
		v, err := look(node, key)
		require.NoError(t, err)
		return v
	}
	assert.Equal(t, inspect.View{}, see("free"))

	s.Do("SET", "held", "token", "PX", 60000)
	s.Do("SET", server.FenceKey("held"), 42)
	v := see("held")
	assert.NotNil(t, v.Kind)
	assert.Equal(t, "token", v.Holder)
	assert.Equal(t, int64(42), v.Fence)
	assert.Positive(t, v.Left)
	assert.LessOrEqual(t, v.Left, time.Minute)

	s.Do("SET", "for ever", "")
	v = see("for ever")
	assert.NotNil(t, v.Kind, "an empty token is one")
	assert.Negative(t, v.Left)

	for i, fence := range []string{"not a number", "99999999999999999999", ""} {
		odd := fmt.Sprint("odd", i)
		s.Do("SET", odd, "token", "PX", 60000)
		s.Do("SET", server.FenceKey(odd), fence)
		v = see(odd)
		assert.Equal(t, "token", v.Holder, "a counter that another client has overwritten does not hide the lock")
		assert.Zero(t, v.Fence)
		assert.Zero(t, v.Age)
	}
	s.Do("HSET", "hash", "field", "value")
	_, err := look(node, "hash")
	assert.ErrorContains(t, err, "WRONGTYPE")
}

// listen subscribes to channel, as a waiting process does, until closed is called.
func listen(t *testing.T, s *redistest.Server, channel string) (closed func()) {
	t.Helper()
	c, err := redis.Dial("tcp", s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = c.Do("SUBSCRIBE", channel)
	require.NoError(t, err)
	return func() { c.Close() }
}

// ago returns a moment in the past by the server's clock, which is this machine's.
func ago(d time.Duration) int64 { return time.Now().Add(-d).UnixMicro() }

// grant gives a lock to the token, with a fence.
func grant(s *redistest.Server, key, token string) {
	s.Do("SET", key, token, "PX", 60000)
	s.Do("SET", server.FenceKey(key), ago(time.Millisecond), "PX", 60000)
}

// enqueue appends a waiter to the queue of a lock.
func enqueue(s *redistest.Server, key, token, channel string) {
	s.Do("ZADD", server.QueueKey(key), ago(0), channel+" m next 150 "+token)
}

// looked makes the queue look as if a waiter had last looked at it d ago.
func looked(s *redistest.Server, key string, d time.Duration) {
	s.Do("PEXPIRE", server.QueueKey(key), (server.QueueTTL - d).Milliseconds())
}

// look looks at one lock and a hundred of its waiters.
func look(node *server.Server, key string) (inspect.View, error) {
	views, err := inspect.Look(context.Background(), node, []string{key}, 100, 10*time.Second)
	if err != nil {
		return inspect.View{}, err
	}
	return views[0], views[0].Err
}

const (
	tokenA = "f47ac10b-58cc-4372-a567-0e02b2c3d479 a"
	tokenB = "f47ac10b-58cc-4372-a567-0e02b2c3d480 b: nightly backup"
	tokenC = "f47ac10b-58cc-4372-a567-0e02b2c3d481"
)

func TestInspectSeesTheQueueInOrderAndWhoIsGone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	node := server.New(s.Pool())
	closed := listen(t, s, "channel-c")
	grant(s, "job", tokenA)
	enqueue(s, "job", tokenB, "channel-b")
	enqueue(s, "job", tokenC, "channel-c")
	looked(s, "job", 3*time.Second)
	listen(t, s, "channel-b")
	v, err := look(node, "job")
	require.NoError(t, err)
	assert.Equal(t, 2, v.Waiting)
	require.Len(t, v.Queue, 2)
	assert.Equal(t, "b: nightly backup", v.Queue[0].Owner)
	assert.Empty(t, v.Queue[1].Owner)
	assert.GreaterOrEqual(t, v.Queue[0].Since, v.Queue[1].Since, "in order of arrival")
	assert.Positive(t, v.Queue[1].Since)
	assert.True(t, *v.Queue[0].Listens)
	assert.True(t, *v.Queue[1].Listens)
	assert.Positive(t, v.Age)
	assert.GreaterOrEqual(t, v.Looked, 3*time.Second)
	assert.Less(t, v.Looked, time.Minute)

	closed()
	redistest.Wait(t, "the server knows that the second waiter is gone", func() bool {
		v, err = look(node, "job")
		require.NoError(t, err)
		listens := v.Queue[1].Listens
		return listens != nil && !*listens
	})
	assert.True(t, *v.Queue[0].Listens)

	views, err := inspect.Look(t.Context(), node, []string{"free", "job", "job"}, 1, 10*time.Second)
	require.NoError(t, err)
	assert.Nil(t, views[0].Kind)
	assert.Equal(t, 2, views[1].Waiting)
	assert.Len(t, views[1].Queue, 1, "as many as were asked for")
	assert.True(t, *views[2].Queue[0].Listens)
	views, err = inspect.Look(t.Context(), node, []string{"job"}, 0, 10*time.Second)
	require.NoError(t, err)
	assert.Equal(t, 2, views[0].Waiting)
	assert.Empty(t, views[0].Queue)
}

func TestAQueueTellsWhenAWaiterLastLooked(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	node := server.New(s.Pool())
	enqueue(s, "job", tokenB, "channel-b")
	v, err := look(node, "job")
	require.NoError(t, err)
	assert.Equal(t, 1, v.Waiting)
	assert.Zero(t, v.Looked, "this one has no TTL, so it is not known")
	looked(s, "job", time.Second)
	v, err = look(node, "job")
	require.NoError(t, err)
	assert.GreaterOrEqual(t, v.Looked, time.Second)
}

func TestInspectKnowsNoAgeButThatOfAFence(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	node := server.New(s.Pool())
	age := func(key string) time.Duration {
		t.Helper()
		v, err := look(node, key)
		require.NoError(t, err)
		return v.Age
	}
	grant(s, "fenced", tokenA)
	assert.Positive(t, age("fenced"))
	assert.Less(t, age("fenced"), time.Minute)

	s.Do("DEL", "fenced")
	assert.Zero(t, age("fenced"), "no process holds it")

	s.Do("SET", "plain", tokenA, "PX", 60000)
	assert.Zero(t, age("plain"))

	s.Do("SET", "counted", "token", "PX", 60000)
	s.Do("SET", server.FenceKey("counted"), 42)
	assert.Zero(t, age("counted"), "a counter that is no time")
	s.Do("SET", server.FenceKey("counted"), time.Now().Add(time.Hour).UnixMicro())
	assert.Zero(t, age("counted"), "a clock that was set back")
}

func TestInspectOfManyKeysTakesTwoRoundTripsAtMost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	node := server.New(s.Pool())
	var keys []string
	for i := range 50 {
		keys = append(keys, fmt.Sprint("k", i))
		grant(s, keys[i], fmt.Sprint(tokenA, i))
		enqueue(s, keys[i], fmt.Sprint(tokenB, i), fmt.Sprint("channel-", i%5))
	}
	s.Do("HSET", "hash", "field", "value")
	m := s.Monitor()
	views, err := inspect.Look(t.Context(), node, append(keys, "hash"), 10, 10*time.Second)
	require.NoError(t, err)
	for i := range keys {
		assert.Equal(t, fmt.Sprint(tokenA, i), views[i].Holder)
		require.NoError(t, views[i].Err)
		assert.False(t, *views[i].Queue[0].Listens)
	}
	require.ErrorContains(t, views[50].Err, "WRONGTYPE", "one key that is no lock does not hide the others")
	numsub := m.Executed("PUBSUB", "NUMSUB")
	require.Len(t, numsub, 1)
	assert.Equal(t, 5, strings.Count(numsub[0], "channel-"), "each channel once")
	for _, line := range m.Lines() {
		assert.NotRegexp(t, `(?i)\] "(set|del|eval|evalsha|zadd|pexpire|keys)"`, line)
	}
}

func TestInspectReadsNoMoreOfAValueThanALockCanHave(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "does not count the bytes that it sends")
	s := redistest.Start(t)
	node := server.New(s.Pool())
	s.Do("SETRANGE", "huge", 20<<20, "x")
	s.Do("SETRANGE", server.FenceKey("huge"), 20<<20, "x")
	s.Do("PEXPIRE", "huge", 60000)
	sent := func() int64 {
		info, err := redis.String(s.Do("INFO", "stats"), nil)
		require.NoError(t, err)
		_, rest, _ := strings.Cut(info, "total_net_output_bytes:")
		n, err := strconv.ParseInt(rest[:strings.Index(rest, "\r")], 10, 64)
		require.NoError(t, err)
		return n
	}
	before := sent()
	v, err := look(node, "huge")
	require.NoError(t, err)
	assert.NotNil(t, v.Kind)
	assert.Positive(t, v.Left)
	assert.Zero(t, v.Fence)
	assert.Greater(t, len(v.Holder), inspect.Longest, "which shows that there is more")
	assert.Less(t, sent()-before, int64(1<<20))
}

func TestInspectTellsWhatTheUserMaySee(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	s := redistest.Start(t)
	grant(s, "job", tokenA)
	enqueue(s, "job", tokenB, "channel")
	s.SetUser("reader", "on", "nopass", "~*", "resetchannels", "-@all", "+getrange", "+pttl", "+zcard", "+zrange", "+time")
	reader := server.New(s.Pool(redis.DialUsername("reader"), redis.DialPassword("x")))
	v, err := look(reader, "job")
	require.NoError(t, err)
	assert.Positive(t, v.Age)
	require.Len(t, v.Queue, 1)
	assert.Nil(t, v.Queue[0].Listens, "without PUBSUB NUMSUB")
	s.Do("ACL", "SETUSER", "reader", "+pubsub|numsub")
	v, err = look(reader, "job")
	require.NoError(t, err)
	assert.Nil(t, v.Queue[0].Listens, "without CLUSTER INFO: it may listen at another node")
	s.Do("ACL", "SETUSER", "reader", "+cluster|info", "-time")
	v, err = look(reader, "job")
	require.NoError(t, err)
	assert.Zero(t, v.Age, "without TIME")
	assert.False(t, *v.Queue[0].Listens)
}

func TestAFullSemaphoreIsHeldAlsoForAUserWhoMayNotCountItsHolders(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	s := redistest.Start(t)
	const readable = 1000 // holders of a lock that are read
	holders := redis.Args{"job"}
	for range readable {
		holders = holders.Add(time.Now().Add(time.Minute).UnixMicro(), uuid.NewString())
	}
	s.Do("ZADD", holders...)
	s.Do("PEXPIRE", "job", 60000)
	s.SetUser("reader", "on", "nopass", "~*", "resetchannels", "-@all", "+getrange", "+pttl", "+zrange", "+time")
	v, err := look(server.New(s.Pool(redis.DialUsername("reader"), redis.DialPassword("x"))), "job")
	require.NoError(t, err)
	assert.Equal(t, server.Semaphore, v.Kind)
	assert.Equal(t, readable, v.Holding)
}
