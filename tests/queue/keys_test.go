package queue_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestEveryKeyOfTheQueueExpiresAndLiesInTheSlotOfTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, key := range []string{"k", "a{b}c", "a}b", "{}"} {
		newMutex := func() *redimutex.Mutex {
			return locktest.Mutex(t, s.Pool(), key, redimutex.WithQueue(), redimutex.WithFencing())
		}
		holder := newMutex()
		holder.Lock()
		var group sync.WaitGroup
		for range 3 {
			m := newMutex()
			group.Go(func() {
				m.Lock()
				assert.Positive(t, s.PTTL(key), "a lock that was handed over expires")
				m.Unlock()
			})
		}
		waitQueued(t, s, key, 3)
		for _, name := range s.Keys() {
			assert.Positive(t, s.PTTL(name), name)
			assert.Equal(t, server.Slot(key), server.Slot(name), name)
		}
		holder.Unlock()
		group.Wait()
		assert.Equal(t, []string{server.FenceKey(key)}, s.Keys())
		s.Do("DEL", server.FenceKey(key))
	}
}

func TestQueueKeepsTheOwnersLabelWhole(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := newMutex(t, s.Pool())
	for _, label := range []string{"a b  c", " 1 0 150 x", "%S+ (.*)$ %1", "Größe 12", "ends with a space "} {
		holder.Lock()
		m := newMutex(t, s.Pool(), redimutex.WithOwner(label))
		locked := startWaiting(t, s, m, 1)
		holder.Unlock()
		require.NoError(t, <-locked)
		assert.Equal(t, m.Lease().Token(), s.Get("k"))
		assert.Equal(t, label, server.Owner(s.Get("k")))
		assert.Equal(t, label, server.Owner(s.Get("k")+server.StepMark), "of a taker in its first step")
		unlock(t, m)
	}
}

func TestWhatIsNoWaiterInTheQueueIsPassedOver(t *testing.T) {
	t.Parallel()
	s, holder := startHeld(t)
	for i, member := range []string{"", "rubbish", "redimutex:nobody 0 150 token", "redimutex:nobody 1 150 token"} {
		s.Do("ZADD", server.QueueKey("k"), i, member)
	}
	s.Do("PEXPIRE", server.QueueKey("k"), 60000)
	m := newMutex(t, s.Pool())
	locked := startWaiting(t, s, m, 5)
	unlock(t, holder)
	require.NoError(t, <-locked)
	unlock(t, m)
	assert.NotContains(t, s.Keys(), server.QueueKey("k"))
}

func TestWithoutTheQueueNothingOfItIsThere(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "does not count commands")
	s := redistest.Start(t)
	m := locktest.Mutex(t, s.Pool(), key, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(4*slow)) // nothing is tried twice
	for range 20 {
		m.Lock()
		m.Unlock() //nolint:staticcheck // nothing to do under the lock
	}
	for _, command := range []string{"zadd", "zrange", "zrem", "publish", "subscribe"} {
		assert.Zero(t, s.Calls(command), command)
	}
}
