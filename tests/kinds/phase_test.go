package kinds_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestNewReadersWaitWhileAWriterWaits(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		a, b, c := process(t, s, opts), process(t, s, opts), process(t, s, opts)
		first := start(t, a.RAcquire).get(t)
		writer := start(t, b.Acquire)
		shown(t, s, "writers", 1)
		for _, m := range []*redimutex.RWMutex{a, b, c} {
			assert.False(t, m.TryRLock())
		}
		readers := []*call{start(t, a.RAcquire), start(t, c.RAcquire)}
		shown(t, s, "waiting", 2)
		assert.False(t, writer.over())
		release(t, first)
		w := writer.get(t)
		for _, r := range readers {
			assert.False(t, r.over(), "the writer comes first")
		}
		release(t, w)
		for _, r := range readers {
			release(t, r.get(t))
		}
		assert.NotContains(t, s.Keys(), "k")
	})
}

func TestAfterAWriterAllWaitingReadersEnterBeforeAWriterThatCameEarlier(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		const groups, each = 3, 4
		a, b := process(t, s, opts), process(t, s, opts)
		first := start(t, a.Acquire).get(t)
		second := start(t, b.Acquire)
		shown(t, s, "writers", 1)
		var readers []*call
		for range groups {
			m := process(t, s, opts)
			for range each {
				readers = append(readers, start(t, m.RAcquire))
			}
			locktest.WaitInLine(t, m.Client(), each)
		}
		shown(t, s, "entitled", groups)
		release(t, first)
		for _, r := range readers {
			r.get(t)
			assert.False(t, second.over())
		}
		for _, r := range readers[1:] {
			release(t, r.lease)
		}
		assert.False(t, second.over())
		release(t, readers[0].lease)
		release(t, second.get(t))
	})
}

func TestATryIsNotSeenToWait(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		a, b, c := process(t, s, opts), process(t, s, opts), process(t, s, opts, redimutex.WithMaxAttempts(1))
		r := start(t, a.RAcquire).get(t)
		assert.False(t, b.TryLock())
		assert.ErrorIs(t, c.LockContext(t.Context(), 0), redimutex.ErrLocked)
		assert.True(t, b.TryRLock(), "nobody waits")
		b.RUnlock()
		release(t, r)
		w := start(t, a.Acquire).get(t)
		assert.False(t, b.TryRLock())
		assert.ErrorIs(t, c.RLockContext(t.Context(), 0), redimutex.ErrLocked)
		release(t, w)
		assert.True(t, b.TryLock(), "nobody waits")
		b.Unlock()
	})
}

func TestAWriterThatGivesUpLetsTheReadersIn(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		a, b, c := process(t, s, opts), process(t, s, opts), process(t, s, opts)
		first := start(t, a.RAcquire).get(t)
		ctx, cancel := context.WithCancel(t.Context())
		writer := startWith(t, ctx, b.Acquire)
		shown(t, s, "writers", 1)
		reader := start(t, c.RAcquire)
		shown(t, s, "waiting", 1)
		cancel()
		release(t, reader.get(t))
		<-writer.done
		assert.Error(t, writer.err)
		release(t, first)
	})
}

func TestOneWaiterThatGivesUpLeavesTheOthersOfItsProcessWaiting(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		a, b, c := process(t, s, opts), process(t, s, opts), process(t, s, opts)
		first := start(t, a.RAcquire).get(t)
		ctx, cancel := context.WithCancel(t.Context())
		leaves := startWith(t, ctx, b.Acquire)
		shown(t, s, "writers", 1)
		stays := start(t, b.Acquire)
		locktest.WaitInLine(t, b.Client(), 2)
		gone, give := context.WithCancel(t.Context())
		reader := startWith(t, gone, b.RAcquire) // of the same process, on the other side
		shown(t, s, "waiting", 1)
		give()
		cancel()
		<-leaves.done
		<-reader.done
		for range 20 {
			require.False(t, c.TryRLock(), "a writer still waits")
		}
		release(t, first)
		release(t, stays.get(t))
	})
}

// Each of them sees the others wait, so it leaves the mark of their process to the others.
func TestWaitersOfAProcessThatGiveUpTogetherLetTheOthersIn(t *testing.T) {
	const timeout = 40 * time.Second // how long the others would see waiters that are gone
	for set, sides := range map[string][2]func(*redimutex.RWMutex) locktest.Acquire{"writers": {write, read}, "entitled": {read, write}} {
		t.Run(set, func(t *testing.T) {
			eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
				opts = append(slices.Clip(opts), redimutex.WithNodeTimeout(timeout), redimutex.WithTTL(time.Hour))
				a, b := process(t, s, opts), process(t, s, opts)
				for range 5 {
					holder := start(t, a.Acquire).get(t)
					ctx, cancel := context.WithCancel(t.Context())
					var waiters [10]*call
					for i := range waiters {
						waiters[i] = startWith(t, ctx, sides[0](b))
					}
					shown(t, s, set, 1)
					locktest.WaitInLine(t, b.Client(), len(waiters))
					cancel()
					for _, w := range waiters {
						<-w.done
					}
					release(t, holder)
					began := time.Now()
					release(t, start(t, sides[1](a)).get(t))
					require.Less(t, time.Since(began), timeout/2)
				}
			})
		})
	}
}

// TestAWaitingReaderSeesAtMostOneWriterBegin counts in the order in which the server has executed the commands. It also counts
// what a waiting writer sees: one phase of readers. A waiter that stalls for longer than its mark lasts is overtaken, and
// loses a hand-off. So the node timeout, which decides both, is longer than any stall of a busy machine.
func TestAWaitingReaderSeesAtMostOneWriterBegin(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		monitor := s.Monitor()
		const readers, writers, each = 8, 4, 12
		var group sync.WaitGroup
		var inside, reads, writes atomic.Int64
		for i := range readers + writers {
			m := process(t, s, opts, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10*time.Second))
			group.Go(func() {
				for range each {
					if i < readers {
						assert.NoError(t, m.RDo(t.Context(), func(context.Context) error {
							assert.GreaterOrEqual(t, inside.Add(1), int64(1))
							time.Sleep(time.Millisecond)
							inside.Add(-1)
							reads.Add(1)
							return nil
						}))
						continue
					}
					assert.NoError(t, m.Do(t.Context(), func(context.Context) error {
						assert.Equal(t, int64(-1000), inside.Add(-1000))
						time.Sleep(time.Millisecond)
						inside.Add(1000)
						writes.Add(1)
						return nil
					}))
				}
			})
		}
		group.Wait()
		assert.EqualValues(t, readers*each, reads.Load())
		assert.EqualValues(t, writers*each, writes.Load())
		phases := redistest.ReadPhases(monitor.Lines())
		assert.Positive(t, phases.Readers.N)
		assert.Positive(t, phases.Writers.N)
		assert.Zero(t, phases.Readers.Passed, "readers that saw %d writers begin", phases.Readers.Most)
		assert.Zero(t, phases.Writers.Passed, "writers that saw a reader begin %d times", phases.Writers.Most)
		withTTLs(t, s)
	})
}

// withTTLs fails the test if a key has no TTL.
func withTTLs(t testing.TB, s *redistest.Server) {
	t.Helper()
	for _, k := range s.Keys() {
		assert.NotEqual(t, -time.Millisecond, s.PTTL(k), "%s has no TTL", k) // a key that has just expired has another PTTL
	}
}

func TestReadersOfOneClientWithOtherOptionsKeepNoWriterWaiting(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		const ttl = 2 * time.Minute
		a, b, c := process(t, s, opts), process(t, s, opts), process(t, s, opts, redimutex.WithTTL(ttl))
		other := c.Client().RWMutex("k", redimutex.WithOwner("another"))
		first := start(t, a.Acquire).get(t)
		alike := start(t, c.RAcquire)
		shown(t, s, "entitled", 1)
		var others []*call
		for n := range 2 {
			others = append(others, start(t, other.RAcquire))
			locktest.WaitInLine(t, c.Client(), n+2)
		}
		second := start(t, b.Acquire)
		shown(t, s, "writers", 1)
		began := time.Now()
		release(t, first)
		release(t, alike.get(t))
		release(t, second.get(t))
		for _, r := range others {
			release(t, r.get(t))
		}
		assert.Less(t, time.Since(began), ttl/2, "nothing that has no holder is in the way")
	})
}

// An undiallable is a pool that can't dial a subscription, so that waiters poll in spite of WithQueue.
type undiallable struct{ pool *redis.Pool }

func (u undiallable) Get() redis.Conn { return u.pool.Get() }

func TestWaitersThatPollAndWaitersThatQueueDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, polls, queues func(*redimutex.RWMutex) locktest.Acquire
		polling, queued      string // the sets that show them
	}{
		"a reader polls":                {write, read, write, "entitled", "writers"},
		"a writer polls":                {read, write, read, "writers", "waiting"},
		"a writer polls after a writer": {write, write, read, "writers", "entitled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			holder, queues := process(t, s, ways["queue"]), process(t, s, ways["queue"])
			polls := newClient(t, undiallable{s.Pool()}, redimutex.WithQueue()).RWMutex("k")
			first, err := c.first(holder)(t.Context())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // otherwise they would wait for ever
			defer cancel()
			poller := startWith(t, ctx, c.polls(polls))
			shown(t, s, c.polling, 1)
			waiter := startWith(t, ctx, c.queues(queues))
			shown(t, s, c.queued, 1)
			locktest.WaitQueued(t, s, "k", 1)
			release(t, first)
			redistest.Wait(t, "one to enter", func() bool { return poller.over() || waiter.over() })
			next, last := poller, waiter
			if waiter.over() {
				next, last = waiter, poller
			}
			release(t, next.get(t))
			release(t, last.get(t))
		})
	}
}

// Otherwise writers would wait because of a mark that no reader needs any more.
func TestTheLastTryOfAReaderTakesItsMarkBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	opts := []redimutex.Option{redimutex.WithTTL(10 * time.Minute), redimutex.WithNodeTimeout(4 * time.Minute), redimutex.WithPollInterval(2 * time.Second)}
	a, b := process(t, s, opts), process(t, s, opts, redimutex.WithMaxAttempts(2))
	w, err := a.Acquire(t.Context())
	require.NoError(t, err)
	reader := start(t, b.RAcquire)
	shown(t, s, "entitled", 1)
	release(t, w)
	release(t, reader.get(t))
	marks, err := redis.Strings(s.Do("ZRANGE", fmt.Sprintf(siblings, "entitled"), "0", "-1"), nil)
	require.NoError(t, err)
	assert.Empty(t, marks)
}
