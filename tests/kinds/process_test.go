package kinds_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestTheWaitingReadersOfAProcessTakeOneTryTogether(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const readers = 100
	opts := []redimutex.Option{redimutex.WithPollInterval(200 * time.Millisecond), redimutex.WithoutRenewal(), redimutex.WithTTL(time.Minute)}
	m, w := process(t, s, opts), process(t, s, opts)
	first := start(t, w.Acquire).get(t)
	var all []*call
	for range readers {
		all = append(all, start(t, m.RAcquire))
	}
	locktest.WaitInLine(t, m.Client(), readers)
	shown(t, s, "entitled", 1)
	monitor := s.Monitor()
	before := monitor.Requests("k")
	release(t, first)
	tokens := make(map[string]bool)
	for _, r := range all {
		tokens[r.get(t).Token()] = true
	}
	assert.Len(t, tokens, readers, "each has a lease of its own")
	assert.Less(t, monitor.Requests("k")-before, readers/4)
	n, err := redis.Int(s.Do("ZCARD", "redimutex:readers:{k}"), nil)
	require.NoError(t, err)
	assert.Equal(t, readers, n)
	for _, r := range all {
		release(t, r.lease)
	}
	assert.NotContains(t, s.Keys(), "k")
}

// A script for all of them could last longer than the node timeout, and would then be repeated for ever.
func TestATryBringsNoMoreThanAThousandReaders(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const readers, limit = 1500, 1000
	opts := []redimutex.Option{redimutex.WithoutRenewal(), redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(time.Minute)}
	var most atomic.Int64 // the most tokens in one command
	pool := redistest.NewBetween(s.Pool())
	pool.Set(func(command redistest.Command) (any, error) {
		tokens := int64(0)
		for _, a := range command.Args {
			if s, ok := a.(string); ok && uuid.Validate(s) == nil {
				tokens++
			}
		}
		for was := most.Load(); tokens > was && !most.CompareAndSwap(was, tokens); was = most.Load() {
			// Another command was counted meanwhile.
		}
		return command.Run()
	})
	m := newClient(t, pool, opts...).RWMutex("k")
	first := start(t, process(t, s, opts).Acquire).get(t)
	var all []*call
	for range readers {
		all = append(all, start(t, m.RAcquire))
	}
	locktest.WaitInLine(t, m.Client(), readers)
	release(t, first)
	for _, r := range all {
		r.get(t)
	}
	assert.EqualValues(t, readers, s.Do("ZCARD", "redimutex:readers:{k}"))
	assert.EqualValues(t, limit, most.Load())
	for _, r := range all {
		release(t, r.lease)
	}
}

// The token that its process has won for it is released, even if the reader leaves at the moment when its turn comes.
func TestAReaderThatLeavesWhileItsProcessWaitsLeavesNothing(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		m, w := process(t, s, opts, redimutex.WithTTL(time.Hour)), process(t, s, opts)
		readers := func() any { return s.Do("ZCARD", "redimutex:readers:{k}") }
		first := start(t, w.Acquire).get(t)
		stays := start(t, m.RAcquire)
		locktest.WaitInLine(t, m.Client(), 1)
		inLine, goOn := make(chan struct{}), make(chan struct{})
		var tries atomic.Int64
		m.Client().Observe(&redimutex.Trace{
			Waiting: func(redimutex.Event) { close(inLine); <-goOn },
			Attempt: func(redimutex.Event) { tries.Add(1) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		leaves := startWith(t, ctx, m.RAcquire)
		<-inLine
		before := tries.Load() // the try that is under way is for one reader alone
		redistest.Wait(t, "a try for both", func() bool { return tries.Load() >= before+2 })
		release(t, first)
		r := stays.get(t)
		assert.EqualValues(t, 2, readers(), "both enter together")
		cancel()
		close(goOn)
		<-leaves.done
		require.ErrorIs(t, leaves.err, context.Canceled)
		require.Eventually(t, func() bool { return readers() == int64(1) }, 10*time.Second, time.Millisecond)
		release(t, r)
		assert.False(t, s.Exists("k"))
	})
}

func TestWithLeaseReuseReadersShareOneEntryOnTheServer(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		m := process(t, s, opts, redimutex.WithLeaseReuse(4*time.Second))
		monitor := s.Monitor()
		var group sync.WaitGroup
		var inside sync.WaitGroup
		inside.Add(50)
		for range 50 {
			group.Go(func() {
				m.RLock()
				inside.Done()
				inside.Wait() // all are in at the same time
				m.RUnlock()
				for range 20 {
					m.RLock()
					m.RUnlock()
				}
			})
		}
		group.Wait()
		n, err := redis.Int(s.Do("ZCARD", "redimutex:readers:{k}"), nil)
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		assert.Less(t, monitor.Requests("k"), 20, "of 1050 holds")
		assert.ErrorIs(t, m.RUnlockContext(t.Context()), redimutex.ErrUnlocked)
	})
}

func TestTheLossOfASharedLeaseIsThatOfEachReader(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		m := process(t, s, opts, redimutex.WithLeaseReuse(time.Second), redimutex.WithTTL(3*time.Second), redimutex.WithNodeTimeout(900*time.Millisecond))
		var readers []*redimutex.Lease
		for range 3 {
			r, err := m.RAcquire(t.Context())
			require.NoError(t, err)
			readers = append(readers, r)
		}
		s.Do("FLUSHALL")
		for _, r := range readers {
			redistest.Receive(t, "the loss", r.Done())
		}
		for _, r := range readers {
			assert.ErrorIs(t, r.Release(t.Context()), redimutex.ErrLost)
		}
	})
}

func TestWithLeaseReuseAWriterElsewhereStillGetsIn(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		m, w := process(t, s, opts, redimutex.WithLeaseReuse(50*time.Millisecond)), process(t, s, opts)
		over := make(chan struct{})
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					m.RLock()
					time.Sleep(time.Millisecond)
					m.RUnlock()
				}
			})
		}
		for range 10 {
			release(t, start(t, w.Acquire).get(t))
		}
		for range 10 {
			release(t, start(t, m.Acquire).get(t)) // of the same process
		}
		close(over)
		group.Wait()
		redistest.Wait(t, "the shared lease to be released", func() bool { return !s.Exists("k") })
	})
}

func TestReadersWithOtherOptionsLeaveNoSharedLeaseBehind(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := process(t, s, nil).Client()
	a := c.RWMutex("k", redimutex.WithLeaseReuse(100*time.Millisecond))
	b := c.RWMutex("k", redimutex.WithLeaseReuse(200*time.Millisecond))
	for range 5 {
		a.RLock()
		b.RLock()
		a.RUnlock()
		b.RUnlock()
		a.RLock()
		a.RUnlock()
	}
	redistest.Wait(t, "all to be released", func() bool { return c.Stats().Held == 0 && !s.Exists("k") })

	a = c.RWMutex("k", redimutex.WithLeaseReuse(time.Hour), redimutex.WithTTL(3*time.Hour))
	a.RLock()
	b.RLock()
	a.RUnlock()
	assert.EqualValues(t, 1, s.Do("ZCARD", "redimutex:readers:{k}"), "what no hold can follow in is not kept")
	b.RUnlock()
}

// TestSingleTriesOfReadersGoBesideTheOneThatHasTheTurn is for the race detector. What a try wins for others of its process
// belongs to the turn, and a single try does not have the turn.
func TestSingleTriesOfReadersGoBesideTheOneThatHasTheTurn(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		m := process(t, s, opts)
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				for range 50 {
					if i%2 == 0 {
						if l, err := m.TryRAcquire(t.Context()); err == nil {
							release(t, l)
						}
						continue
					}
					l, err := m.RAcquire(t.Context())
					if assert.NoError(t, err) {
						release(t, l)
					}
				}
			})
		}
		group.Wait()
		redistest.Wait(t, "no reader to be left", func() bool { return !s.Exists("redimutex:readers:{k}") })
	})
}
