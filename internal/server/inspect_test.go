package server_test

import (
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
