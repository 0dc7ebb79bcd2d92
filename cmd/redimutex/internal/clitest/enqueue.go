package clitest

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// Enqueue puts a waiter into the queue of a lock: wants is what it wants, and its fence. It listens on the server unless it is dead.
func Enqueue(t *testing.T, s *redistest.Server, key, wants, owner string, dead bool) {
	t.Helper()
	channel := "channel-" + uuid.NewString()
	if !dead {
		c, err := redis.Dial("tcp", s.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = c.Do("SUBSCRIBE", channel)
		require.NoError(t, err)
	}
	s.Do("ZADD", server.QueueKey(key), time.Now().UnixMicro(), channel+" "+wants+" 60000 "+uuid.NewString()+server.OwnerMark+owner)
	s.Do("PEXPIRE", server.QueueKey(key), 60000)
}
