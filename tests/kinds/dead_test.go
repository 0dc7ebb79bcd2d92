package kinds_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestADeadReaderDelaysAWriterByItsOwnTTL(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		long := process(t, s, opts, redimutex.WithTTL(time.Hour))
		w := startWorker(t, "read", s, time.Second, queues(t))
		require.Equal(t, "ready", w.Hear())
		require.Equal(t, "held", w.Hear())
		r := start(t, long.RAcquire).get(t)
		assert.Greater(t, s.PTTL("k"), 50*time.Minute)
		w.Kill()
		release(t, r)
		assert.LessOrEqual(t, s.PTTL("k"), time.Second, "the lock follows the last that may live, downwards too")
		began := time.Now()
		release(t, start(t, long.Acquire).get(t))
		assert.Less(t, time.Since(began), 30*time.Second)
	})
}

func TestAWriterThatDiedWhileItWaitedShutsReadersOutNoLongerThanItsMark(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		a, b := process(t, s, opts, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(time.Second)), process(t, s, opts)
		first := start(t, a.RAcquire).get(t)
		w := startWorker(t, "write", s, time.Hour, queues(t))
		require.Equal(t, "ready", w.Hear())
		shown(t, s, "writers", 1)
		w.Kill()
		assert.LessOrEqual(t, s.PTTL("redimutex:writers:{k}"), 5*time.Second, "a node timeout more than its next look")
		release(t, start(t, b.RAcquire).get(t))
		assert.NoError(t, first.Err())
		release(t, first)
	})
}

func TestAReaderThatDiedWhileItWaitedShutsWritersOutNoLongerThanItsMark(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		a, b := process(t, s, opts), process(t, s, opts)
		first := start(t, a.Acquire).get(t)
		w := startWorker(t, "read", s, time.Hour, queues(t))
		require.Equal(t, "ready", w.Hear())
		shown(t, s, "entitled", 1)
		w.Kill()
		release(t, first)
		release(t, start(t, b.Acquire).get(t))
	})
}

// A set of readers that was left by an earlier phase says nothing of the one that began later.
func TestReadersOfAnEarlierPhaseDoNotCount(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		a, b := process(t, s, opts, redimutex.WithTTL(time.Hour)), process(t, s, opts)
		lost := start(t, a.RAcquire).get(t)
		s.Do("DEL", "k")
		require.NotNil(t, s.Do("SET", "k", "foreign", "NX", "PX", "60000"))
		s.Do("DEL", "k")
		r := start(t, b.RAcquire).get(t)
		release(t, r)
		assert.NotContains(t, s.Keys(), "k", "the first reader is gone")
		assert.ErrorIs(t, lost.Release(t.Context()), redimutex.ErrLost)
	})
}

// What a holder that died has left in a set counts for nothing, and is gone when the next one comes: else a lock that is
// never free would collect what all dead holders have left.
func TestWhatDeadHoldersHaveLeftIsForgottenWhenTheNextComes(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	m := process(t, s, nil)
	permits := m.Client().Semaphore("s", 2)
	for set, acquire := range map[string]func(context.Context) (*redimutex.Lease, error){
		"redimutex:readers:{k}": m.RAcquire, "s": permits.Acquire,
	} {
		first := start(t, acquire).get(t)
		s.Do("ZADD", set, 1, "a token whose lease has ended")
		second := start(t, acquire).get(t)
		members, err := redis.Strings(s.Do("ZRANGE", set, 0, -1), nil)
		require.NoError(t, err)
		assert.ElementsMatch(t, []string{first.Token(), second.Token()}, members)
		release(t, first)
		s.Do("ZADD", set, 1, "a token whose lease has ended")
		release(t, second)
		assert.False(t, s.Exists(set), "nor does it keep a set alive that none holds")
	}
}
