package kinds_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// TestReadersAndWritersOfAllWaysExcludeEachOtherAndLeaveNothing mixes pollers and queues, reuse, downgrades, tries and
// waits that end early, with plain Mutexes on the same key.
func TestReadersAndWritersOfAllWaysExcludeEachOtherAndLeaveNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var inside atomic.Int64 // the number of readers; a writer counts as -1000
	reading := func(l *redimutex.Lease) {
		assert.Positive(t, inside.Add(1))
		time.Sleep(rand.N(2 * time.Millisecond))
		assert.NoError(t, l.Err())
		inside.Add(-1)
	}
	writing := func(l *redimutex.Lease) {
		assert.EqualValues(t, -1000, inside.Add(-1000))
		time.Sleep(rand.N(2 * time.Millisecond))
		assert.NoError(t, l.Err())
		inside.Add(1000)
	}
	poll, queue := ways["polling"], ways["queue"]
	reuse := redimutex.WithLeaseReuse(5 * time.Millisecond)
	all := []*redimutex.RWMutex{
		process(t, s, poll), process(t, s, poll, reuse), process(t, s, queue), process(t, s, queue, reuse),
		process(t, s, queue, redimutex.WithMaxAttempts(3)), process(t, s, poll, redimutex.WithMultiplexing(1)),
	}
	var group sync.WaitGroup
	var reads, writes, downgrades, plains atomic.Int64
	for _, m := range all {
		plain := m.Client().Mutex("k")
		downgraded := func(l *redimutex.Lease) {
			writing(l)
			assert.NoError(t, l.Downgrade(t.Context()))
			reading(l)
		}
		verbs := []struct {
			acquire locktest.Acquire
			hold    func(*redimutex.Lease)
			holds   *atomic.Int64
		}{
			{m.RAcquire, reading, &reads},
			{m.RAcquire, reading, &reads},
			{m.RAcquire, reading, &reads},
			{m.TryRAcquire, reading, &reads},
			{m.TryAcquire, writing, &writes},
			{m.Acquire, writing, &writes},
			{m.Acquire, downgraded, &downgrades},
			{plain.Acquire, writing, &plains},
		}
		for range 4 {
			group.Go(func() {
				for range 30 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(60))*time.Millisecond)
					if rand.IntN(3) == 0 {
						ctx = t.Context()
					}
					verb := verbs[rand.IntN(len(verbs))]
					if l, err := verb.acquire(ctx); err == nil {
						verb.hold(l)
						assert.NoError(t, l.Release(t.Context()))
						verb.holds.Add(1)
					}
					cancel()
				}
			})
		}
	}
	group.Wait()
	t.Log(reads.Load(), writes.Load(), downgrades.Load(), plains.Load())
	assert.Positive(t, reads.Load())
	assert.Positive(t, writes.Load())
	assert.Positive(t, downgrades.Load())
	assert.Positive(t, plains.Load())
	redistest.Wait(t, "no lock and no reader to be left", func() bool { return !s.Exists("k") && !s.Exists("redimutex:readers:{k}") })
	withTTLs(t, s)
	for _, m := range all {
		redistest.Wait(t, "nothing to be held", func() bool { return m.Client().Stats().Held == 0 })
		st := m.Client().Stats()
		assert.Zero(t, st.LostDeleted+st.LostExpired+st.LostTaken)
	}
}
