package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// looks returns how many scripts the server has been sent.
func looks(t testing.TB, s *redistest.Server) (n int) {
	t.Helper()
	info, err := redis.String(s.Do("INFO", "commandstats"), nil)
	require.NoError(t, err)
	_, line, found := strings.Cut(info, "cmdstat_evalsha:calls=")
	if found {
		_, err = fmt.Sscan(strings.Split(line, ",")[0], &n)
		require.NoError(t, err)
	}
	return n
}

// Who looks seldom takes long to notice that another let the lock lapse, or that it was deleted.
func TestLivingWaiterLooksNoLessOftenForTheDeadOnesInTheQueue(t *testing.T) {
	t.Parallel()
	const (
		dead   = 150
		window = 2 * time.Second
	)
	s := redistest.Real(t)
	s.Do("SET", key, "a foreign client", "PX", 600_000)
	within := func() int {
		before := looks(t, s)
		<-time.After(window)
		return looks(t, s) - before
	}
	got := startWaiting(t, s, newMutex(t, s.Pool(), redimutex.WithTTL(time.Minute)), 1)
	alone := within()
	require.Positive(t, alone)
	crowd := startWorker(t, s.Addr(), 9*time.Second, dead)
	waitTickets(t, s, 1+dead)
	crowd.kill()
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
