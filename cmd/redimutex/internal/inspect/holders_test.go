package inspect_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/server"
)

func TestInspectSeesThePermitsOfASemaphore(t *testing.T) {
	t.Parallel()
	s, node := start(t)
	for i, token := range []string{tokenA, tokenB, tokenC} {
		s.Do("ZADD", "job", time.Now().Add(time.Duration(i)*time.Minute-time.Second).UnixMicro(), token)
	}
	s.Do("PEXPIRE", "job", 120000)
	s.Do("SET", server.FenceKey("job"), 7)
	s.Do("ZADD", server.QueueKey("job"), ago(0), "channel 3 0 150 "+tokenA)
	v := see(t, node, "job")
	assert.Equal(t, server.Semaphore, v.Kind)
	assert.Empty(t, v.Holder)
	assert.Equal(t, 2, v.Holding, "the first has expired")
	require.Len(t, v.Holders, 2)
	assert.Equal(t, tokenB, v.Holders[0].Token)
	assert.InDelta(t, 59, v.Holders[0].Left.Seconds(), 10)
	assert.Zero(t, v.Fence, "that of a Mutex which had the key before")
	require.Len(t, v.Queue, 1)
	assert.Equal(t, server.Semaphore, v.Queue[0].Wants)
	assert.Equal(t, "a", v.Queue[0].Owner)

	s.Do("ZADD", "job", 1, tokenB, 1, tokenC)
	v = see(t, node, "job")
	assert.Nil(t, v.Kind, "all have expired")

	s.Do("ZADD", "board", 4e18, "a player")
	s.Do("PEXPIRE", "board", 60000)
	s.Do("ZADD", "scores", 5, "a player")
	for _, key := range []string{"board", "scores"} {
		refuses(t, node, key)
	}
}

func TestInspectSeesReadersAndWhoWaitsWithoutAQueue(t *testing.T) {
	t.Parallel()
	s, node := start(t)
	readers, writers, waiting, entitled := server.PhaseKeys("job")
	soon := time.Now().Add(time.Minute).UnixMicro()
	s.Do("SET", "job", "*", "PX", 60000)
	s.Do("ZADD", readers, soon, tokenA, 1, tokenB)
	s.Do("ZADD", writers, soon, "w1", 1, "gone")
	s.Do("ZADD", waiting, soon, "r1")
	s.Do("ZADD", entitled, soon, "r2")
	v := see(t, node, "job")
	assert.Equal(t, server.Reader, v.Kind)
	assert.Equal(t, 1, v.Holding, "the other one is dead")
	require.Len(t, v.Holders, 1)
	assert.Equal(t, tokenA, v.Holders[0].Token)
	assert.Equal(t, 3, v.Waiting)

	enqueue(s, "job", tokenC, "channel") // a plain Mutex, which has no mark
	s.Do("ZADD", server.QueueKey("job"), ago(0), "w1 w next 150 "+tokenC)
	for _, waiters := range []int{0, 1, 100} {
		v = look(t, node, waiters, "free", "job")[1]
		assert.Equal(t, 4, v.Waiting, "the queue, and those with a mark that are not in it")
		assert.Len(t, v.Queue, min(waiters, 2))
		assert.Equal(t, 1, v.Holding)
	}

	s.Do("SET", "job", tokenC, "PX", 60000)
	v = see(t, node, "job")
	assert.Equal(t, server.Writer, v.Kind)
	assert.Equal(t, tokenC, v.Holder)
	assert.Empty(t, v.Holders)
}
