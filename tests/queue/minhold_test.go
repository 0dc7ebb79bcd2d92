package queue_test

import (
	"fmt"
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
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, " servers"), func(t *testing.T) {
			t.Parallel()
			var servers []*redistest.Server
			var pools []redimutex.Pool
			for range n {
				s := redistest.Real(t)
				s.Do("SET", key, "a foreign client", "PX", 600_000)
				servers, pools = append(servers, s), append(pools, s.Pool())
			}
			m := newRedlock(t, pools, redimutex.WithMinHold(time.Minute))
			got := startWaiting(t, servers[0], m, 1)
			for _, s := range servers {
				waitQueued(t, s, key, 1)
			}
			for _, s := range servers[:n/2+1] {
				s.Do("DEL", key)
			}
			require.NoError(t, <-got)
			for _, s := range servers {
				for _, name := range queues(t, s) {
					s.Do("PERSIST", name) // or they would be gone by themselves in the end
				}
			}
			unlock(t, m)
			for _, s := range servers {
				waitQueued(t, s, key, 0)
			}
		})
	}
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
