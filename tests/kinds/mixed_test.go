package kinds_test

import (
	"context"
	"slices"
	"strings"
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

func TestAWriterThatGivesUpBeforeAPlainMutexOfItsProcessKeepsNoReaderWaiting(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		const timeout = 40 * time.Second // how long the others would see a writer that is gone
		opts = append(slices.Clip(opts), redimutex.WithNodeTimeout(timeout), redimutex.WithTTL(time.Hour))
		m, r := process(t, s, opts), process(t, s, opts)
		first := start(t, r.RAcquire).get(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		writer := startWith(t, ctx, m.Acquire)
		shown(t, s, "writers", 1)
		if strings.HasSuffix(t.Name(), "queue") {
			locktest.WaitQueued(t, s, "k", 1)
		}
		plain := start(t, m.Client().Mutex("k").Acquire)
		locktest.WaitInLine(t, m.Client(), 2)
		reader := start(t, r.RAcquire)
		locktest.WaitInLine(t, r.Client(), 1)
		began := time.Now()
		cancel()
		<-writer.done
		second := reader.get(t)
		assert.Less(t, time.Since(began), timeout/2)
		release(t, first)
		release(t, second)
		release(t, plain.get(t))
	})
}

// The two stand in one line, and only the first in line asks the server.
func TestAWriterBehindAPlainMutexOfItsClientIsSeenToWaitOnceThatWaitsNoMore(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		m, r := process(t, s, opts), process(t, s, opts)
		first := start(t, r.RAcquire).get(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		plain := startWith(t, ctx, m.Client().Mutex("k").Acquire)
		locktest.WaitInLine(t, m.Client(), 1)
		writer := start(t, m.Acquire)
		locktest.WaitInLine(t, m.Client(), 2)
		release(t, start(t, r.RAcquire).get(t))
		cancel()
		<-plain.done
		shown(t, s, "writers", 1)
		assert.False(t, r.TryRLock())
		release(t, first)
		release(t, writer.get(t))
	})
}

// A plain Mutex hands the lock off without knowing the marks of readers and writers.
func TestALockThatAPlainMutexHandsOnLeavesNoMark(t *testing.T) {
	t.Parallel()
	const timeout = 40 * time.Second // how long a mark would stay
	sides := []func(*redimutex.RWMutex) locktest.Acquire{read, write}
	for i, set := range []string{"entitled", "writers"} {
		for name, extended := range map[string]bool{"at once": false, "after an extension": true} {
			t.Run(set+" "+name, func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				ttl := timeout * 3 / 2 // the message alone is enough: nothing is asked between it and the release
				if extended {
					ttl = time.Hour
				}
				opts := []redimutex.Option{redimutex.WithQueue(), redimutex.WithNodeTimeout(timeout), redimutex.WithTTL(ttl)}
				plain := newMutex(t, s.Pool(), "k", opts...)
				holder := start(t, plain.Acquire).get(t)
				m, other := process(t, s, opts), process(t, s, opts)
				waiter := start(t, sides[i](m))
				shown(t, s, set, 1)
				locktest.WaitQueued(t, s, "k", 1)
				release(t, holder)
				l := waiter.get(t)
				if extended {
					redistest.Wait(t, "the extension", func() bool { return s.PTTL("k") > 2*timeout })
				}
				release(t, l)
				began := time.Now()
				release(t, start(t, sides[1-i](other)).get(t))
				assert.Less(t, time.Since(began), timeout/2)
			})
		}
	}
}

// The first try shows the waiter to the others. The waiter leaves before its next try, which would put it into the queue.
func TestAWaiterThatLeavesBeforeItQueuesLeavesNoMark(t *testing.T) {
	t.Parallel()
	const timeout = 40 * time.Second
	s := redistest.Start(t)
	opts := []redimutex.Option{redimutex.WithQueue(), redimutex.WithNodeTimeout(timeout), redimutex.WithTTL(time.Hour)}
	other := process(t, s, opts)
	first := start(t, other.RAcquire).get(t)
	pool, listens, let := s.Pool(), make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(let) })
	dial := pool.Dial
	var dials atomic.Int32
	pool.Dial = func() (redis.Conn, error) {
		if dials.Add(1) == 2 { // the dial of the queue's subscriber
			close(listens)
			<-let
		}
		return dial()
	}
	m := newClient(t, pool, opts...).RWMutex("k")
	ctx, cancel := context.WithCancel(t.Context())
	writer := startWith(t, ctx, m.Acquire)
	shown(t, s, "writers", 1)
	<-listens
	cancel()
	<-writer.done
	began := time.Now()
	release(t, start(t, other.RAcquire).get(t))
	assert.Less(t, time.Since(began), timeout/2)
	release(t, first)
}

func TestAWriterThatAPlainMutexHandsTheLockToAndIsDowngradedAtOnceLeavesNoMark(t *testing.T) {
	t.Parallel()
	const timeout = 40 * time.Second
	s := redistest.Start(t)
	opts := []redimutex.Option{redimutex.WithQueue(), redimutex.WithNodeTimeout(timeout), redimutex.WithTTL(timeout * 3 / 2)}
	plain := newMutex(t, s.Pool(), "k", opts...)
	m, other := process(t, s, opts), process(t, s, opts)
	first := start(t, other.Client().Mutex("listens").Acquire).get(t)
	second := start(t, m.Client().Mutex("listens").Acquire) // the Client subscribes, so the writer queues with its first try
	locktest.WaitQueued(t, s, "listens", 1)
	holder := start(t, plain.Acquire).get(t)
	writer := start(t, m.Acquire)
	shown(t, s, "writers", 1)
	locktest.WaitQueued(t, s, "k", 1)
	release(t, holder)
	l := writer.get(t)
	require.NoError(t, l.Downgrade(t.Context()))
	began := time.Now()
	release(t, start(t, other.RAcquire).get(t))
	assert.Less(t, time.Since(began), timeout/2)
	release(t, l)
	release(t, first)
	release(t, second.get(t))
}

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

// Readers that an earlier phase has left in the set do not count in a later phase.
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

// What a dead holder has left in a set does not count, and is removed when the next holder comes. Otherwise the set of a lock
// that is never free would collect the entries of all dead holders.
func TestWhatDeadHoldersHaveLeftIsForgottenWhenTheNextComes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := process(t, s, nil)
	permits := m.Client().Semaphore("s", 2)
	for set, acquire := range map[string]locktest.Acquire{
		"redimutex:readers:{k}": m.RAcquire, "s": permits.Acquire,
	} {
		first := start(t, acquire).get(t)
		s.Do("ZADD", set, 1, uuid.NewString()) // a token whose lease has ended
		second := start(t, acquire).get(t)
		members, err := redis.Strings(s.Do("ZRANGE", set, 0, -1), nil)
		require.NoError(t, err)
		assert.ElementsMatch(t, []string{first.Token(), second.Token()}, members)
		release(t, first)
		s.Do("ZADD", set, 1, uuid.NewString())
		release(t, second)
		assert.False(t, s.Exists(set), "nor does it keep a set alive that none holds")
	}
}

// The writer that it lets in ends the phase, as any other writer does: the waiting readers come before the next writer.
func TestAWriterThatAPlainMutexLetsInIsTheLastBeforeTheWaitingReaders(t *testing.T) {
	t.Parallel()
	for name, extended := range map[string]bool{"at once": false, "after an extension": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			// If a writer looks between the end of the first reader and the call for the plain Mutex, the writer comes first.
			redistest.Wait(t, "the plain Mutex to be let in first", func() bool { return plainThenWriter(t, s, extended) })
		})
	}
}

// plainThenWriter makes a plain Mutex, two writers and a reader wait for a reader that hands nothing off. It reports whether
// the plain Mutex came before the writers.
func plainThenWriter(t *testing.T, s *redistest.Server, extended bool) bool {
	opts := []redimutex.Option{redimutex.WithQueue(), redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20 * time.Second)}
	before, err := process(t, s, opts[1:]).RAcquire(t.Context()) // without a queue
	require.NoError(t, err)
	inQueue := 0
	queue := func(acquire locktest.Acquire) *call {
		c := start(t, acquire)
		inQueue++
		locktest.WaitQueued(t, s, "k", inQueue)
		return c
	}
	plain := queue(newClient(t, s.Pool(), opts...).Mutex("k").Acquire)
	first, second := queue(process(t, s, opts).Acquire), queue(process(t, s, opts).Acquire)
	reader := queue(process(t, s, opts).RAcquire)
	release(t, before)
	caller := newClient(t, s.Pool(), opts...).Mutex("k")
	require.ErrorIs(t, caller.TryLockContext(t.Context()), redimutex.ErrLocked) // this calls the first waiter in the queue
	redistest.Wait(t, "one to be let in", func() bool { return plain.over() || first.over() })
	if first.over() {
		release(t, first.get(t))
		release(t, reader.get(t))
		rest := []*call{plain, second}
		for len(rest) > 0 {
			redistest.Wait(t, "the next", func() bool { return slices.ContainsFunc(rest, (*call).over) })
			i := slices.IndexFunc(rest, (*call).over)
			release(t, rest[i].get(t))
			rest = slices.Delete(rest, i, i+1)
		}
		return false
	}
	release(t, plain.get(t))
	l := first.get(t)
	if extended {
		require.NoError(t, l.Extend(t.Context(), time.Minute))
	}
	release(t, l)
	l = reader.get(t)
	assert.False(t, second.over(), "the second writer came before the reader")
	release(t, l)
	release(t, second.get(t))
	return true
}
