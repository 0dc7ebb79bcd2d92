package server_test

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// A script that fails halfway would leave the lock locked, or the waiter called and without it.
func TestAFullServerReleasesALockThoughTheNextWaiterFindsNoRoom(t *testing.T) {
	r := redistest.Real(t)
	s := open(t, r.Pool())
	channel := "redimutex:test"
	subscriber := redis.PubSubConn{Conn: r.Pool().Get()}
	defer subscriber.Close()
	require.NoError(t, subscriber.Subscribe(channel))
	_, subscribed := subscriber.Receive().(redis.Subscription)
	require.True(t, subscribed)
	for _, fencing := range []bool{false, true} {
		queued := func() *server.Request {
			req := request("k")
			req.Queue, req.Fencing, req.Claim, req.Channel = true, fencing, req.TTL, channel
			return req
		}
		for _, others := range []bool{false, true} {
			holder, other := queued(), queued()
			done(t, s.Acquire(holder))
			if others {
				other.Waiter = other.Token
				require.Equal(t, server.Held, s.Acquire(other).Verdict)
			}
			holder.Heir = &server.Heir{Name: "heir"}
			r.Do("CONFIG", "SET", "maxmemory", "1")
			done(t, s.Release(holder))
			r.Do("CONFIG", "SET", "maxmemory", "0")
			assert.Zero(t, holder.Heir.Arrived.Load(), "there was no room")
			assert.False(t, exists(t, r, server.QueueKey("k")))
			if others {
				assert.Equal(t, other.Token, r.Get("k"), "the lock is the first waiter's")
				done(t, s.Release(other))
			}
			assert.False(t, exists(t, r, "k"))
		}
	}
}
