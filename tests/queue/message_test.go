package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// A process is stopped when the lock is handed to it, and the message is still on its way. When it goes on, the lock is
// another's, and only then the message arrives.
func TestLateMessageOfAnEarlierHandOverMakesNoLease(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	network := s.Network(0)
	holder, other := newMutex(t, s.Pool()), newMutex(t, s.Pool(), redimutex.WithNodeTimeout(slow))
	for range 3 { // a machine that is late misses the moment
		require.NoError(t, holder.LockContext(t.Context(), time.Minute))
		late := startWorker(t, network.Addr(), 500*time.Millisecond, 1)
		waitQueued(t, s, key, 1)
		got := startWaiting(t, s, other, 2)
		network.Hold(redistest.Messages)
		late.Stop()
		unlock(t, holder)
		require.NoError(t, <-got, "the grant of the one that was stopped has lapsed")

		looked := network.Replied()
		late.Continue()
		redistest.Wait(t, "it has looked", func() bool { return network.Replied() > looked })
		network.Release()
		redistest.Wait(t, "it has had time for the message, too", func() bool { return network.Replied() > looked+3 || len(late.Said()) > 0 })
		select {
		case said := <-late.Said():
			require.NoError(t, other.Lease().Err(), "the machine was too late to tell")
			require.Fail(t, "two valid leases", "the late one said %q", said)
		default:
		}
		unlock(t, other)
		require.Equal(t, "held", late.Hear(), "in its turn it gets the lock")
		unlocks(t, late)
	}
}

// A message may come so late that what it tells of has lapsed, and another has the lock.
func TestAMessageOfBeforeTheLastLookIsNoLock(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	s.Do("SET", "k", "foreign", "PX", 60_000)
	m := newMutex(t, s.Pool())
	locked := make(chan struct{})
	go func() { m.Lock(); close(locked) }()
	waitQueued(t, s, "k", 1)
	member, err := redis.Strings(s.Do("ZRANGE", server.QueueKey("k"), 0, 0), nil)
	require.NoError(t, err)
	fields := strings.Fields(member[0])
	looks := calls(t, s, "evalsha")
	redistest.Wait(t, "some messages, and looks", func() bool {
		s.Do("PUBLISH", fields[0], "0 1 0 "+fields[3])
		return calls(t, s, "evalsha") > looks+20
	})
	assert.False(t, locktest.Ended(locked))
	s.Do("DEL", "k")
	<-locked
	m.Unlock()
}
