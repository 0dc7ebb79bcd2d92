package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A waiter that looks seldom takes long to notice that another let the lock lapse, or that it was deleted.
func TestLivingWaiterLooksNoLessOftenForTheDeadOnesInTheQueue(t *testing.T) {
	t.Parallel()
	const (
		dead   = 150
		window = 2 * time.Second
	)
	s := redistest.Real(t)
	s.Do("SET", key, "a foreign client", "PX", 600_000)
	within := func() int {
		before := calls(t, s, "evalsha")
		<-time.After(window)
		return calls(t, s, "evalsha") - before
	}
	got := startWaiting(t, s, newMutex(t, s.Pool(), redimutex.WithTTL(time.Minute)), 1)
	alone := within()
	require.Positive(t, alone)
	crowd := startWorker(t, s.Addr(), 9*time.Second, dead)
	waitQueued(t, s, key, 1+dead)
	crowd.Kill()
	redistest.Wait(t, "the connections of the dead are closed", func() bool { return subscribers(t, s) == 1 })
	among := 0
	for range 6 { // it may look seldom until it has noticed
		if among = within(); among > alone/2 {
			break
		}
	}
	t.Logf("%d looks in %v alone, %d among %d dead", alone, window, among, dead)
	require.Greater(t, among, alone/2, "looks in %v among %d dead ones, in place of %d", window, dead, alone)
	s.Do("DEL", key)
	require.NoError(t, <-got)
}
