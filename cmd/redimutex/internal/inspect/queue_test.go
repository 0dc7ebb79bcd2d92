package inspect_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

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

// looked makes the queue look as if a waiter had last looked at it d ago.
func looked(s *redistest.Server, key string, d time.Duration) {
	s.Do("PEXPIRE", server.QueueKey(key), (server.QueueTTL - d).Milliseconds())
}

func TestInspectSeesTheQueueInOrderAndWhoIsGone(t *testing.T) {
	t.Parallel()
	s, node := start(t)
	closed := listen(t, s, "channel-c")
	grant(s, "job", tokenA)
	enqueue(s, "job", tokenB, "channel-b")
	enqueue(s, "job", tokenC, "channel-c")
	listen(t, s, "channel-b")
	assert.Zero(t, see(t, node, "job").Looked, "the queue has no TTL, so it is not known")
	looked(s, "job", 3*time.Second)
	v := see(t, node, "job")
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
		v = see(t, node, "job")
		listens := v.Queue[1].Listens
		return listens != nil && !*listens
	})
	assert.True(t, *v.Queue[0].Listens)

	views := look(t, node, 1, "free", "job", "job")
	assert.Nil(t, views[0].Kind)
	assert.Equal(t, 2, views[1].Waiting)
	assert.Len(t, views[1].Queue, 1, "as many as were asked for")
	assert.True(t, *views[2].Queue[0].Listens)
	v = look(t, node, 0, "job")[0]
	assert.Equal(t, 2, v.Waiting)
	assert.Empty(t, v.Queue)
}
