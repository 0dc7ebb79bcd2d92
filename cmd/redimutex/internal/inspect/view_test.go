package inspect_test

import (
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

const (
	tokenA = "f47ac10b-58cc-4372-a567-0e02b2c3d479 a"
	tokenB = "f47ac10b-58cc-4372-a567-0e02b2c3d480 b: nightly backup"
	tokenC = "f47ac10b-58cc-4372-a567-0e02b2c3d481"
)

// start starts a server.
func start(t *testing.T) (*redistest.Server, *server.Server) {
	t.Helper()
	s := redistest.Start(t)
	return s, server.New(s.Pool())
}

// look looks at locks, and at the given number of waiters of each.
func look(t *testing.T, node *server.Server, waiters int, keys ...string) []inspect.View {
	t.Helper()
	views, err := inspect.Look(t.Context(), node, keys, waiters, 10*time.Second)
	require.NoError(t, err)
	return views
}

// see looks at one lock and a hundred of its waiters.
func see(t *testing.T, node *server.Server, key string) inspect.View {
	t.Helper()
	v := look(t, node, 100, key)[0]
	require.NoError(t, v.Err)
	return v
}

// refuses looks at a key that is no lock.
func refuses(t *testing.T, node *server.Server, key string) {
	t.Helper()
	assert.ErrorContains(t, look(t, node, 100, key)[0].Err, "WRONGTYPE", key)
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

func TestInspectSeesTheHolderTheTimeAndTheFence(t *testing.T) {
	t.Parallel()
	s, node := start(t)
	assert.Equal(t, inspect.View{}, see(t, node, "free"))

	s.Do("SET", "held", "token", "PX", 60000)
	s.Do("SET", server.FenceKey("held"), 42)
	v := see(t, node, "held")
	assert.NotNil(t, v.Kind)
	assert.Equal(t, "token", v.Holder)
	assert.Equal(t, int64(42), v.Fence)
	assert.Positive(t, v.Left)
	assert.LessOrEqual(t, v.Left, time.Minute)

	s.Do("SET", "for ever", "")
	v = see(t, node, "for ever")
	assert.NotNil(t, v.Kind, "an empty token is one")
	assert.Negative(t, v.Left)

	for i, fence := range []string{"not a number", "99999999999999999999", ""} {
		odd := fmt.Sprint("odd", i)
		s.Do("SET", odd, "token", "PX", 60000)
		s.Do("SET", server.FenceKey(odd), fence)
		v = see(t, node, odd)
		assert.Equal(t, "token", v.Holder, "a counter that another client has overwritten does not hide the lock")
		assert.Zero(t, v.Fence)
		assert.Zero(t, v.Age)
	}
	s.Do("HSET", "hash", "field", "value")
	refuses(t, node, "hash")
}

func TestInspectKnowsNoAgeButThatOfAFence(t *testing.T) {
	t.Parallel()
	s, node := start(t)
	age := func(key string) time.Duration { return see(t, node, key).Age }
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
	s, node := start(t)
	var keys []string
	for i := range 50 {
		keys = append(keys, fmt.Sprint("k", i))
		grant(s, keys[i], fmt.Sprint(tokenA, i))
		enqueue(s, keys[i], fmt.Sprint(tokenB, i), fmt.Sprint("channel-", i%5))
	}
	s.Do("HSET", "hash", "field", "value")
	m := s.Monitor()
	views := look(t, node, 10, append(keys, "hash")...)
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
	s, node := start(t)
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
	v := see(t, node, "huge")
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
	v := see(t, reader, "job")
	assert.Positive(t, v.Age)
	require.Len(t, v.Queue, 1)
	assert.Nil(t, v.Queue[0].Listens, "without PUBSUB NUMSUB")
	s.Do("ACL", "SETUSER", "reader", "+pubsub|numsub")
	v = see(t, reader, "job")
	assert.Nil(t, v.Queue[0].Listens, "without CLUSTER INFO: it may listen at another node")
	s.Do("ACL", "SETUSER", "reader", "+cluster|info", "-time")
	v = see(t, reader, "job")
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
	v := see(t, server.New(s.Pool(redis.DialUsername("reader"), redis.DialPassword("x"))), "job")
	assert.Equal(t, server.Semaphore, v.Kind)
	assert.Equal(t, readable, v.Holding)
}
