package redimutex_test

import (
	"context"
	"errors"
	"log/slog"
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

// A side has the verbs that lock one side of an RWMutex, try to lock it, and unlock it.
type side struct {
	lock    func(ctx context.Context, timeout time.Duration) error
	try     func(ctx context.Context) error
	unlock  func(ctx context.Context) error
	acquire func(ctx context.Context) (*redimutex.Lease, error)
	do      func(ctx context.Context, f func(context.Context) error) error
}

func writer(m *redimutex.RWMutex) side {
	return side{m.LockContext, m.TryLockContext, m.UnlockContext, m.Acquire, m.Do}
}

func reader(m *redimutex.RWMutex) side {
	return side{m.RLockContext, m.TryRLockContext, m.RUnlockContext, m.RAcquire, m.RDo}
}

// newRWMutex returns an RWMutex with a Client of its own, as in another process.
func newRWMutex(t testing.TB, s *redistest.Server, opts ...redimutex.Option) *redimutex.RWMutex {
	t.Helper()
	opts = append([]redimutex.Option{redimutex.WithPollInterval(5 * time.Millisecond)}, opts...)
	return newClient(t, s.Pool(), opts...).RWMutex("k")
}

// withTTLs fails the test if a key has no TTL.
func withTTLs(t testing.TB, s *redistest.Server) {
	t.Helper()
	for _, k := range s.Keys() {
		assert.NotEqual(t, -time.Millisecond, s.PTTL(k).Truncate(time.Millisecond), "%s has no TTL", k)
	}
}

func TestWritersExcludeAllAndReadersShare(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := newRWMutex(t, s), newRWMutex(t, s)
	for _, other := range []*redimutex.RWMutex{a, b} {
		a.Lock()
		require.NotNil(t, a.Lease())
		assert.False(t, other.TryLock())
		assert.False(t, other.TryRLock())
		a.Unlock()
		a.RLock()
		assert.False(t, other.TryLock())
		assert.True(t, other.TryRLock())
		assert.Nil(t, a.Lease(), "a reader is not the writer")
		withTTLs(t, s)
		a.RUnlock()
		assert.False(t, a.TryLock(), "one is left")
		other.RUnlock()
		assert.Empty(t, s.Keys())
	}
}

func TestTriesOfOneProcessAtOnceLetAllReadersIn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, opts := range [][]redimutex.Option{nil, {redimutex.WithQueue()}, {redimutex.WithLeaseReuse(time.Millisecond)}} {
		opts = append(opts, redimutex.WithTTL(time.Minute))
		m := newClient(t, s.Far(10*time.Millisecond).Pool(), opts...).RWMutex("k")
		assert.Equal(t, 10, tryTogether(t, 10, func() error { return m.TryRLockContext(t.Context()) }))
		for m.RUnlockContext(t.Context()) == nil {
			// Each of them has a hold of its own.
		}
	}
	redistest.Wait(t, "no keys", func() bool { return len(s.Keys()) == 0 })
}

func TestPlainLocksOnTheKeyExcludeReadersAndWriters(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newRWMutex(t, s)
	for name, same := range map[string]*redimutex.Mutex{"same Client": m.Client().Mutex("k"), "another": newMutex(t, s.Pool(), "k")} {
		for _, side := range []side{reader(m), writer(m)} {
			require.NoError(t, side.try(t.Context()))
			assert.ErrorIs(t, same.TryLockContext(t.Context()), redimutex.ErrLocked, name)
			assert.Nil(t, s.Do("SET", "k", "foreign", "NX", "PX", "1000"))
			require.NoError(t, side.unlock(t.Context()))

			require.NoError(t, same.TryLockContext(t.Context()))
			assert.ErrorIs(t, side.try(t.Context()), redimutex.ErrLocked, name)
			same.Unlock()

			require.NotNil(t, s.Do("SET", "k", "foreign", "NX", "PX", "60000"))
			assert.ErrorIs(t, side.try(t.Context()), redimutex.ErrLocked)
			s.Do("DEL", "k")
		}
	}
	assert.Empty(t, s.Keys())
}

func TestRUnlockEndsHoldsOfRLockAlone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newRWMutex(t, s)
	assert.ErrorIs(t, m.RUnlockContext(t.Context()), redimutex.ErrUnlocked)
	assert.ErrorIs(t, locktest.PanicOf(m.RUnlock), redimutex.ErrUnlocked)
	l, err := m.RAcquire(t.Context())
	require.NoError(t, err)
	assert.ErrorIs(t, locktest.PanicOf(m.RUnlock), redimutex.ErrUnlocked, "that of RAcquire belongs to its Lease")
	m.RLock()
	m.RUnlock()
	assert.NoError(t, l.Err())
	assert.ErrorIs(t, locktest.PanicOf(m.Unlock), redimutex.ErrUnlocked)
	require.NoError(t, l.Release(t.Context()))
	assert.ErrorIs(t, l.Release(t.Context()), redimutex.ErrUnlocked)
	assert.Empty(t, s.Keys())
}

func TestRUnlockEndsTheOldestHoldOfWhichLocksTells(t *testing.T) {
	t.Parallel()
	var leases, released []*redimutex.Lease
	m := newRWMutex(t, redistest.Start(t), redimutex.WithTTL(time.Hour), redimutex.WithTrace(&redimutex.Trace{
		Acquired: func(e redimutex.Event) { leases = append(leases, e.Lease) },
		Released: func(e redimutex.Event) { released = append(released, e.Lease) },
	}))
	for range 8 {
		m.RLock()
	}
	for i := range leases {
		require.Len(t, m.Client().Locks(), 1)
		assert.Equal(t, leases[i].Until(), m.Client().Locks()[0].Until)
		m.RUnlock()
	}
	assert.Equal(t, leases, released)
}

func TestRLockerLocksForReading(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newRWMutex(t, s)
	r := m.RLocker()
	r.Lock()
	assert.True(t, m.TryRLock())
	m.RUnlock()
	assert.False(t, m.TryLock())
	r.Unlock()
	assert.True(t, m.TryLock())
	m.Unlock()
}

func TestAnRWMutexWithoutOneServerPanicsInWords(t *testing.T) {
	t.Parallel()
	servers := locktest.Start(t, 1)
	p := servers[0].Pool()
	c := newClientOver(t, []redimutex.Pool{p, servers[0].Pool(), servers[0].Pool()})
	assert.ErrorContains(t, panicOf(func() { c.RWMutex("k") }), "majority")
	assert.ErrorContains(t, panicOf(func() { redimutex.NewRWMutex(p, "") }), "empty")
	assert.ErrorContains(t, panicOf(func() { redimutex.NewRWMutex(p, "redimutex:x") }), "reserved")
	var zero redimutex.RWMutex
	assert.ErrorContains(t, panicOf(zero.RLock), "zero")
	assert.ErrorContains(t, panicOf(zero.RUnlock), "zero")
	assert.ErrorContains(t, panicOf(zero.Lock), "zero")
}

func TestAReaderCannotBecomeAWriter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, opts := range [][]redimutex.Option{nil, {redimutex.WithReentrancy()}} {
		m := newRWMutex(t, s, opts...)
		plain := m.Client().Mutex("k")
		require.NoError(t, m.RDo(t.Context(), func(ctx context.Context) error {
			never := func(context.Context) error { t.Error("f ran"); return nil }
			_, acquired := m.Acquire(ctx)
			for _, err := range []error{
				m.LockContext(ctx, 0), m.TryLockContext(ctx), acquired, m.Do(ctx, never), m.TryDo(ctx, never), plain.Do(ctx, never),
			} {
				assert.ErrorIs(t, err, redimutex.ErrLocked)
				assert.ErrorContains(t, err, "a reader can't become a writer")
			}
			return ctx.Err()
		}))
		assert.Empty(t, s.Keys())
	}
}

func TestReadersNestWithReentrancyAndAreAnErrorWithout(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, side := range []func(*redimutex.RWMutex) side{reader, writer} {
		m := newRWMutex(t, s)
		require.NoError(t, side(m).do(t.Context(), func(ctx context.Context) error {
			never := func(context.Context) error { return errors.New("it ran") }
			for _, err := range []error{m.RDo(ctx, never), m.TryRDo(ctx, never), m.RLockContext(ctx, 0), m.TryRLockContext(ctx)} {
				assert.ErrorIs(t, err, redimutex.ErrLocked)
				assert.ErrorContains(t, err, "nested")
			}
			return nil
		}))
		m = newRWMutex(t, s, redimutex.WithReentrancy())
		ran := 0
		require.NoError(t, side(m).do(t.Context(), func(ctx context.Context) error {
			own := redimutex.LeaseFrom(ctx)
			f := func(ctx context.Context) error {
				ran++
				assert.Same(t, own, redimutex.LeaseFrom(ctx))
				return nil
			}
			assert.NoError(t, m.RDo(ctx, f))
			assert.NoError(t, m.TryRDo(ctx, f))
			return nil
		}))
		assert.Equal(t, 2, ran)
	}
	assert.Empty(t, s.Keys())
}

func TestDowngradeMakesAReaderOfTheWriter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, opts := range [][]redimutex.Option{nil, {redimutex.WithQueue()}, {redimutex.WithLeaseReuse(time.Second)}, {redimutex.WithMinHold(time.Minute)}} {
		m, other := newRWMutex(t, s, opts...), newRWMutex(t, s, opts...)
		for _, end := range []string{"RUnlock", "Release"} {
			m.Lock()
			l := m.Lease()
			require.NoError(t, l.Downgrade(t.Context()))
			assert.Nil(t, m.Lease())
			assert.NoError(t, l.Err())
			assert.True(t, other.TryRLock())
			assert.True(t, m.TryRLock())
			assert.False(t, other.TryLock())
			assert.False(t, m.TryLock(), "the turn was passed on, and the server says no")
			m.RUnlock()
			other.RUnlock()
			assert.NoError(t, l.Err(), "RUnlock ends one of RLock first")
			assert.NoError(t, l.Downgrade(t.Context()), "a repeat finds what it has done")
			assert.ErrorIs(t, panicOf(m.Unlock), redimutex.ErrUnlocked)
			withTTLs(t, s)
			if end == "RUnlock" {
				m.RUnlock()
				assert.ErrorIs(t, l.Release(t.Context()), redimutex.ErrUnlocked)
			} else {
				require.NoError(t, l.Release(t.Context()))
				assert.ErrorIs(t, panicOf(m.RUnlock), redimutex.ErrUnlocked)
			}
			err := l.Downgrade(t.Context())
			assert.ErrorIs(t, err, redimutex.ErrUnlocked)
			assert.ErrorContains(t, err, "Downgrade")
			redistest.Wait(t, "the readers to be gone", func() bool { return !s.Exists("k") })
		}
	}
}

func TestADowngradeOfAnythingElseIsAnErrorInWords(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newRWMutex(t, s)
	r, err := m.RAcquire(t.Context())
	require.NoError(t, err)
	assert.ErrorContains(t, r.Downgrade(t.Context()), "that of a reader")
	assert.NoError(t, r.Err())
	require.NoError(t, r.Release(t.Context()))
	plain := newMutex(t, s.Pool(), "k")
	plain.Lock()
	assert.ErrorContains(t, plain.Lease().Downgrade(t.Context()), "only the lease of a writer")
	assert.NoError(t, plain.UnlockContext(t.Context()))
	assert.Empty(t, s.Keys())
}

func TestADowngradeThatFailsMakesAReaderAllTheSame(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newRWMutex(t, s, redimutex.WithTTL(1500*time.Millisecond), redimutex.WithNodeTimeout(time.Second))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	m.Lock()
	assert.ErrorIs(t, m.Lease().Downgrade(gone), context.Canceled)
	assert.Nil(t, m.Lease())
	assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrUnlocked)
	assert.NoError(t, m.RUnlockContext(t.Context()))
	assert.Empty(t, s.Keys())

	for _, known := range []bool{true, false} {
		m.Lock()
		l := m.Lease()
		s.Do("DEL", "k")
		if known {
			<-l.Done()
		}
		for range 2 {
			assert.ErrorIs(t, l.Downgrade(t.Context()), redimutex.ErrLost)
		}
		assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrUnlocked)
		assert.ErrorIs(t, m.RUnlockContext(t.Context()), redimutex.ErrLost)
		assert.ErrorIs(t, m.RUnlockContext(t.Context()), redimutex.ErrUnlocked)
	}
	assert.Empty(t, s.Keys())
}

// The server still has it as a writer.
func TestAWriterWhoseDowngradeHasFailedHasNoShortestHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newRWMutex(t, s, redimutex.WithMinHold(time.Minute))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	m.Lock()
	require.ErrorIs(t, m.Lease().Downgrade(gone), context.Canceled)
	require.NoError(t, m.RUnlockContext(t.Context()))
	assert.Empty(t, s.Keys())
}

func TestInsideDoADowngradedHoldReads(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newRWMutex(t, s, redimutex.WithReentrancy())
	require.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
		require.NoError(t, redimutex.LeaseFrom(ctx).Downgrade(ctx))
		assert.ErrorContains(t, m.Do(ctx, func(context.Context) error { return nil }), "a reader can't become a writer")
		return m.RDo(ctx, func(context.Context) error { return nil })
	}))
	assert.Empty(t, s.Keys())
}

func TestAWritersFenceRisesAndAReadersIsTheLastWriters(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, opts := range [][]redimutex.Option{nil, {redimutex.WithQueue()}} {
		opts = append(opts, redimutex.WithFencing())
		s.Do("FLUSHALL")
		a, b := newRWMutex(t, s, opts...), newRWMutex(t, s, opts...)
		fence := func(side side) int64 {
			l, err := side.acquire(t.Context())
			require.NoError(t, err)
			defer func() { require.NoError(t, l.Release(t.Context())) }()
			return l.Fence()
		}
		first := fence(reader(a))
		assert.InDelta(t, time.Now().UnixMicro(), first, 1e7, "a missing counter starts at the server's clock")
		assert.Equal(t, first, fence(reader(b)))
		written := fence(writer(a))
		assert.Greater(t, written, first)
		assert.Equal(t, written, fence(reader(b)))
		assert.Equal(t, written, fence(reader(a)))
		assert.Greater(t, fence(writer(b)), written)

		b.Lock()
		l := b.Lease()
		require.NoError(t, l.Downgrade(t.Context()))
		assert.Equal(t, l.Fence(), fence(reader(a)))
		b.RUnlock()
		withTTLs(t, s)
	}
}

func TestMinHoldConcernsWriters(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newRWMutex(t, s, redimutex.WithMinHold(time.Minute), redimutex.WithTTL(2*time.Minute))
	m.RLock()
	m.RUnlock()
	assert.False(t, s.Exists("k"))
	m.Lock()
	m.Unlock()
	assert.True(t, s.Exists("k"))
	assert.False(t, m.TryRLock())
}

func TestTheLossOfAReaderIsTold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var lost atomic.Int64
	m := newRWMutex(t, s, redimutex.WithTTL(1500*time.Millisecond), redimutex.WithNodeTimeout(time.Second),
		redimutex.WithTrace(&redimutex.Trace{Lost: func(redimutex.Event) { lost.Add(1) }}))
	m.RLock()
	err := m.RDo(t.Context(), func(ctx context.Context) error {
		s.Do("DEL", "k")
		<-ctx.Done()
		return context.Cause(ctx)
	})
	assert.ErrorIs(t, err, redimutex.ErrLost)
	redistest.Wait(t, "both to be lost", func() bool { return lost.Load() == 2 })
	m.RLock()
	assert.ErrorIs(t, m.RUnlockContext(t.Context()), redimutex.ErrLost, "it ends the lost hold first")
	assert.NoError(t, m.RUnlockContext(t.Context()))
	assert.ErrorIs(t, m.RUnlockContext(t.Context()), redimutex.ErrUnlocked)
	redistest.Wait(t, "no keys", func() bool { return len(s.Keys()) == 0 })
}

func TestClientLocksKnowsReadersAndWriters(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m, other := newRWMutex(t, s, redimutex.WithOwner("me")), newRWMutex(t, s)
	m.RLock()
	m.RLock()
	require.Len(t, m.Client().Locks(), 1)
	info := m.Client().Locks()[0]
	assert.Equal(t, "reader", info.Kind)
	assert.Equal(t, 2, info.Holds)
	assert.Equal(t, "me", info.Owner)
	var group sync.WaitGroup
	group.Go(other.Lock)
	redistest.Wait(t, "the writer in Locks", func() bool {
		all := other.Client().Locks()
		return len(all) == 1 && all[0].Waiting == 1 && !all[0].Held && all[0].Kind == "writer" && all[0].Err != nil
	})
	assert.Equal(t, 2, m.Client().Stats().Held)
	m.RUnlock()
	m.RUnlock()
	group.Wait()
	require.Len(t, other.Client().Locks(), 1)
	assert.Equal(t, "writer", other.Client().Locks()[0].Kind)
	require.NoError(t, other.Lease().Downgrade(t.Context()))
	require.Len(t, other.Client().Locks(), 1)
	assert.Equal(t, "reader", other.Client().Locks()[0].Kind)
	other.RLock()
	require.Len(t, other.Client().Locks(), 1, "one lock, however its readers came")
	assert.Equal(t, 2, other.Client().Locks()[0].Holds)
	other.RUnlock()
	other.RUnlock()
	assert.Empty(t, other.Client().Locks())
	assert.EqualValues(t, 2, m.Client().Stats().Acquired)
	assert.EqualValues(t, 2, m.Client().Stats().Released)
}

func TestADowngradeTakesNothingBackOfAnExtension(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newRWMutex(t, s)
	m.Lock()
	l := m.Lease()
	require.NoError(t, l.Extend(t.Context(), time.Hour))
	require.NoError(t, l.Downgrade(t.Context()))
	assert.Greater(t, s.PTTL("k"), time.Until(l.Until()))
	require.NoError(t, l.Release(t.Context()))
}

// As long as there are readers, the counter keeps the fence of the last writer.
func TestReadersKeepTheFenceCounter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newRWMutex(t, s, redimutex.WithFencing())
	m.Lock()
	m.Unlock()
	require.Len(t, s.Keys(), 1)
	counter := s.Keys()[0]
	s.Do("PEXPIRE", counter, "60000")
	m.RLock()
	assert.Greater(t, s.PTTL(counter), 2*time.Minute)
	m.RUnlock()
}

func TestAReaderWhoseEntryIsGoneIsToldSoWhileOthersRead(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m, other := newRWMutex(t, s), newRWMutex(t, s)
	other.RLock()
	l, err := m.RAcquire(t.Context())
	require.NoError(t, err)
	for _, k := range s.Keys() {
		if k != "k" {
			s.Do("ZREM", k, l.Token())
		}
	}
	var lost *redimutex.LostError
	require.ErrorAs(t, l.Extend(t.Context(), time.Minute), &lost)
	assert.Equal(t, redimutex.Deleted, lost.Reason)
	other.RUnlock()
}

// Its subscription is gone, so it polls. If its place stayed in the queue, it would be called after it has released the lock.
func TestAReaderThatEntersByPollingLeavesItsPlaceInTheQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "k", "foreign", "PX", 600000)
	var cut atomic.Bool
	pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) {
		if cut.Load() {
			return nil, redistest.ErrCut
		}
		return redis.Dial("tcp", s.Addr())
	}}
	defer pool.Close()
	m := newClient(t, pool, redimutex.WithQueue(), patient, redimutex.WithLogger(slog.New(slog.DiscardHandler))).RWMutex("k")
	entered := make(chan error, 1)
	go func() { entered <- m.RLockContext(context.Background(), time.Minute) }()
	locktest.WaitQueued(t, s, "k", 1)
	cut.Store(true)
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	redistest.Wait(t, "no process listens", func() bool { return len(s.Do("PUBSUB", "CHANNELS").([]any)) == 0 })
	s.Do("DEL", "k")
	require.NoError(t, <-entered)
	assert.Empty(t, locktest.Queue(t, s, "k"))
	m.RUnlock()
}

func TestAWaiterKeptOutByAMarkCallsTheWaiterWhoseItIs(t *testing.T) {
	s := redistest.Start(t)
	sub, err := s.Pool().Dial()
	require.NoError(t, err)
	psc := redis.PubSubConn{Conn: sub}
	defer psc.Close()
	require.NoError(t, psc.Subscribe("redimutex:other"))
	require.IsType(t, redis.Subscription{}, psc.ReceiveWithTimeout(time.Second))
	// This reader has waited for a writer that knew nothing of the queue. It looks again only after a second.
	now := time.Now()
	s.Do("ZADD", "redimutex:queue:{k}", now.UnixMicro(), "redimutex:other r 0 900 reader")
	s.Do("PEXPIRE", "redimutex:queue:{k}", 5000)
	s.Do("ZADD", "redimutex:entitled:{k}", now.Add(5*time.Second).UnixMicro(), "redimutex:other")
	s.Do("PEXPIRE", "redimutex:entitled:{k}", 5000)
	m := newRWMutex(t, s, redimutex.WithQueue(), redimutex.WithTTL(time.Second))
	done := make(chan error, 1)
	go func() { done <- m.LockContext(context.Background(), 10*time.Second) }()
	require.IsType(t, redis.Message{}, psc.ReceiveWithTimeout(3*time.Second), "the reader is called")
	require.NoError(t, <-done, "and the writer follows it")
	require.NoError(t, m.UnlockContext(context.Background()))
}
