package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A majority gives the lock, and the other servers have the waiter in their queues until it unlocks, which a
// minimal hold makes no release of the lock.
func TestMinimalHoldLeavesNobodyInTheQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	s.Do("SET", key, "a foreign client", "PX", 600_000)
	m := newMutex(t, s.Pool(), redimutex.WithMinHold(time.Minute))
	got := startWaiting(t, s, m, 1)
	s.Do("DEL", key)
	require.NoError(t, <-got)
	for _, name := range queues(t, s) {
		s.Do("PERSIST", name) // or it would be gone by itself in the end
	}
	unlock(t, m)
	waitQueued(t, s, key, 0)
}

func TestQueueIsGoneWithTheLastHoldAlsoWhereThatIsLeftToExpire(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	holder := newMutex(t, s.Pool())
	require.NoError(t, holder.LockContext(t.Context(), 0))
	m := newMutex(t, s.Pool(), redimutex.WithMinHold(200*time.Millisecond))
	got := startWaiting(t, s, m, 1)
	unlock(t, holder)
	require.NoError(t, <-got)
	unlock(t, m)
	redistest.Wait(t, "the lock has expired", func() bool { return s.Get(key) == "" })
	require.Empty(t, s.Keys())
}
