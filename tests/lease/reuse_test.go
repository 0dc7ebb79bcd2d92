package lease_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// long is a lease reuse that no test outlasts. The TTL has to be more than twice as long.
const long = time.Minute

// A lock of several keys causes the release of parked grants of its keys, at any moment.
func TestAHoldNeverFollowsInALeaseThatIsBeingReleased(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), redimutex.WithLeaseReuse(5*long), redimutex.WithTTL(15*long), redimutex.WithNodeTimeout(20*time.Second))
	m, both := c.Mutex("k"), c.MutexAll([]string{"k", "l"})
	over := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		defer close(over)
		for range 5000 {
			if both.TryLock() {
				both.Unlock()
			}
		}
	})
	for holds := 0; !locktest.Ended(over) && !t.Failed(); holds++ {
		lease, err := m.Acquire(t.Context())
		require.NoError(t, err)
		assert.NoError(t, lease.Err(), "after %d holds", holds)
		assert.NoError(t, lease.Release(t.Context()), "after %d holds", holds)
	}
	others.Wait()
}

func TestHoldsFollowEachOtherWithoutAskingTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), redimutex.WithLeaseReuse(long), redimutex.WithTTL(3*long))
	m, other := c.Mutex("k"), c.Mutex("k")
	m.Lock()
	first := m.Lease()
	m.Unlock()
	for range 100 {
		m.Lock()
		m.Unlock()
		require.True(t, other.TryLock(), "another Mutex of the Client follows as well")
		other.Unlock()
	}
	m.Lock()
	defer m.Unlock()
	assert.Equal(t, first.Token(), m.Lease().Token(), "the server was not asked for another")
	assert.Equal(t, s.Get("k"), first.Token())
}

func TestEachHoldOfAGrantHasItsOwnLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newClient(t, s.Pool(), redimutex.WithLeaseReuse(long), redimutex.WithTTL(3*long)).Mutex("k")
	m.Lock()
	first := m.Lease()
	ctx := first.Context(t.Context())
	m.Unlock()
	m.Lock()
	second := m.Lease()
	assert.NotSame(t, first, second)
	<-first.Done()
	<-ctx.Done()
	assert.ErrorIs(t, first.Err(), redimutex.ErrUnlocked)
	assert.ErrorIs(t, context.Cause(ctx), redimutex.ErrUnlocked)
	assert.NoError(t, second.Err())
	select {
	case <-second.Done():
		t.Error("the end of the first hold has ended the second")
	default:
	}
	m.Unlock()
	assert.ErrorIs(t, second.Err(), redimutex.ErrUnlocked)
	assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrUnlocked)
}

func TestALossEndsTheHoldOfAGrantAndTheGrant(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newClient(t, s.Pool(),
		redimutex.WithLeaseReuse(400*time.Millisecond), redimutex.WithTTL(900*time.Millisecond)).Mutex("k")
	m.Lock()
	m.Unlock()
	m.Lock()
	lost := m.Lease()
	s.Do("SET", "k", "another holder", "PX", 600_000)
	redistest.Receive(t, "the loss", lost.Done())
	assert.ErrorIs(t, lost.Err(), redimutex.ErrLost)
	assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
	assert.False(t, m.TryLock(), "nothing of a lost grant is used again")
	assert.Equal(t, "another holder", s.Get("k"))
}

func TestWithFencingEachHoldHasAFenceOfItsOwnFromTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newClient(t, s.Pool(), redimutex.WithFencing(), redimutex.WithTTL(3*long), redimutex.WithLeaseReuse(long)).Mutex("k")
	last, token := int64(0), ""
	for range 20 {
		m.Lock()
		l := m.Lease()
		assert.Greater(t, l.Fence(), last)
		assert.NotEqual(t, token, l.Token(), "the lease of the hold before")
		last, token = l.Fence(), l.Token()
		m.Unlock()
		assert.False(t, s.Exists("k"))
	}
}

func TestAGrantEndsInTimeAlsoWhileLocalGoroutinesWant(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	queue := redimutex.WithQueue()
	c := newClient(t, s.Pool(), queue, redimutex.WithLeaseReuse(5*time.Millisecond))
	remote := newClient(t, s.Pool(), queue).Mutex("k")
	ctx, stop := context.WithCancel(t.Context())
	var greedy sync.WaitGroup
	for range 4 {
		greedy.Go(func() {
			m := c.Mutex("k")
			for ctx.Err() == nil {
				m.Lock()
				runtime.Gosched()
				m.Unlock()
			}
		})
	}
	for range 10 {
		require.NoError(t, remote.LockContext(t.Context(), time.Minute), "behind holds that follow each other without end")
		remote.Unlock()
	}
	stop()
	greedy.Wait()
}

func TestAParkedGrantIsGivenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newClient(t, s.Pool(), redimutex.WithLeaseReuse(20*time.Millisecond)).Mutex("k")
	m.Lock()
	m.Unlock()
	redistest.Wait(t, "the key is gone", func() bool { return len(s.Keys()) == 0 })
	require.True(t, m.TryLock())
	m.Unlock()
}

func TestCloseGivesAParkedGrantBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithLeaseReuse(long), redimutex.WithTTL(3*long))
	m := c.Mutex("k")
	m.Lock()
	m.Unlock()
	require.Len(t, s.Keys(), 1)
	require.NoError(t, c.Close())
	assert.Empty(t, s.Keys())
	assert.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrClosed)
}

func TestCloseReportsTheLossOfAParkedGrant(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, reader := range []bool{false, true} {
		c := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithLeaseReuse(long), redimutex.WithTTL(3*long))
		do := c.Mutex("k").Do
		if reader {
			do = c.RWMutex("k").RDo
		}
		for i := range 20 {
			require.NoError(t, do(t.Context(), func(context.Context) error { return nil }), i)
		}
		s.Do("SET", "k", "foreign")
		require.NoError(t, c.Close())
		assert.EqualValues(t, 1, c.Stats().LostTaken, "reader: %v", reader)
		s.Do("FLUSHALL")
	}
}

// A renewal between two holds finds the loss, and no call does.
func TestALossThatARenewalFindsEndsAParkedGrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, pool := redistest.Virtual(t)
		c := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithTTL(10*time.Second), redimutex.WithLeaseReuse(4900*time.Millisecond))
		defer c.Close()
		mutex := c.Mutex("k")
		first, err := mutex.Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, first.Release(t.Context()))
		require.True(t, m.Del("k"), "it is kept")
		time.Sleep(4 * time.Second) // virtual
		synctest.Wait()
		assert.EqualValues(t, 1, c.Stats().LostDeleted)
		assert.Zero(t, c.Stats().Held)
		assert.ErrorIs(t, first.Err(), redimutex.ErrUnlocked, "this hold had ended well")
		require.NoError(t, mutex.TryLockContext(t.Context()), "nothing of the lost grant is in the way")
		assert.NotEqual(t, first.Token(), mutex.Lease().Token())
		require.NoError(t, mutex.UnlockContext(t.Context()))
	})
}

// kept leaves a lease behind for the next hold with the same options. It returns a Mutex with other options.
func kept(t *testing.T, pool redimutex.Pool) (other *redimutex.Mutex) {
	t.Helper()
	c := newClient(t, pool, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(2*time.Second))
	m := c.Mutex("k", redimutex.WithLeaseReuse(20*time.Second))
	require.NoError(t, m.LockContext(t.Context(), 0))
	require.NoError(t, m.UnlockContext(t.Context()))
	return c.Mutex("k", redimutex.WithOwner("another holder"))
}

func TestWhatIsKeptForOtherOptionsIsNoOtherHoldersLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := s.Pool()
	for range 20 {
		other := kept(t, pool)
		require.NoError(t, other.TryLockContext(t.Context()), "no process holds it")
		require.NoError(t, other.UnlockContext(t.Context()))
	}
}

// In its process, a Mutex on the key of an RWMutex stands in another line than the readers.
func TestAMutexGetsWhatItsProcessKeepsForReaders(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string][]redimutex.Option{"polling": nil, "queue": {redimutex.WithQueue()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c := newClient(t, s.Pool(), append(waits, redimutex.WithTTL(time.Hour))...)
			m := c.Mutex("k")
			for _, lock := range []func(ctx context.Context) error{
				func(ctx context.Context) error { return m.LockContext(ctx, 20*time.Second) }, m.TryLockContext,
			} {
				l, err := c.RWMutex("k", redimutex.WithLeaseReuse(20*time.Minute)).RAcquire(t.Context())
				require.NoError(t, err)
				require.NoError(t, l.Release(t.Context()))
				require.True(t, s.Exists("k"), "it is kept")
				require.NoError(t, lock(t.Context()))
				m.Unlock()
			}
		})
	}
}

func TestOptionsAreComparedByTheirValues(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]func() []redimutex.Option{
		"reuse": func() []redimutex.Option { return []redimutex.Option{redimutex.WithLeaseReuse(2 * time.Second)} },
		"many": func() []redimutex.Option {
			return []redimutex.Option{
				redimutex.WithLeaseReuse(2 * time.Second), redimutex.WithTTL(8 * time.Second), redimutex.WithOwner("me"),
				redimutex.WithQueue(), redimutex.WithNodeTimeout(time.Second), redimutex.WithMaxHold(time.Minute),
				redimutex.WithPollInterval(10 * time.Millisecond),
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, real := redistest.Virtual(t)
				pool := redistest.NewBetween(real)
				var commands atomic.Int32
				pool.Set(func(command redistest.Command) (any, error) {
					commands.Add(1)
					return command.Run()
				})
				c := newClient(t, pool)
				hold := func() string {
					m := c.Mutex("k", opts()...)
					require.NoError(t, m.LockContext(t.Context(), 0))
					defer m.Unlock()
					return m.Lease().Token()
				}
				token, before := hold(), commands.Load()
				for range 100 {
					require.Equal(t, token, hold(), "a Mutex that is made for each call has the same options each time")
				}
				assert.Equal(t, before, commands.Load(), "the server has nothing to say about that")
			})
		})
	}
}

type valueKey struct{}

// A request is what a context refers to. It is big enough to be an allocation of its own.
type request [64]byte

func TestAContextOfALeaseIsForgottenWhenItsParentEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newClient(t, s.Pool(), redimutex.WithTTL(time.Minute)).Mutex("k")
	m.Lock()
	l := m.Lease()
	const requests = 100
	var forgotten atomic.Int32
	for range requests {
		serve(l, &forgotten)
	}
	deadline := time.Now().Add(10 * time.Second)
	for forgotten.Load() < requests && time.Now().Before(deadline) {
		runtime.GC()
		time.Sleep(time.Millisecond) // clean-ups run on a goroutine of their own
	}
	assert.EqualValues(t, requests, forgotten.Load(), "requests that a leader has served, and that nothing holds on to")
	require.NoError(t, l.Err())
	ctx := l.Context(t.Context())
	assert.NoError(t, ctx.Err())
	assert.NoError(t, m.UnlockContext(t.Context()))
	<-ctx.Done()
	assert.ErrorIs(t, context.Cause(ctx), redimutex.ErrUnlocked)
}

// serve derives a context from that of a request, and ends the request. forgotten counts the requests that were collected.
func serve(l *redimutex.Lease, forgotten *atomic.Int32) {
	r := new(request)
	runtime.AddCleanup(r, func(n *atomic.Int32) { n.Add(1) }, forgotten)
	parent, end := context.WithCancel(context.WithValue(context.Background(), valueKey{}, r))
	ctx := l.Context(parent)
	end()
	<-ctx.Done()
}

// A grant that came late leaves less time for the holds that follow.
func TestEachHoldOfAReusedLeaseBeginsWithHalfOfTheValidity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 2 * time.Second
		_, pool := redistest.Virtual(t)
		b := redistest.NewBetween(pool)
		c := redimutex.NewClient([]redimutex.Pool{b}, redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(990*time.Millisecond),
			redimutex.WithLeaseReuse(960*time.Millisecond), redimutex.WithoutRenewal())
		defer c.Close()
		require.NoError(t, c.Mutex("warm").LockContext(t.Context(), 0))
		b.Set(func(command redistest.Command) (any, error) {
			defer time.Sleep(930 * time.Millisecond)
			return command.Run()
		})
		m := c.Mutex("k")
		first, err := m.Acquire(t.Context())
		require.NoError(t, err)
		b.Set(nil)
		for range 10 {
			require.NoError(t, m.UnlockContext(t.Context()))
			time.Sleep(75 * time.Millisecond)
			next, err := m.Acquire(t.Context())
			require.NoError(t, err)
			assert.GreaterOrEqual(t, time.Until(next.Until()), (ttl-ttl/100-2*time.Millisecond)/2)
		}
		assert.NotEqual(t, first.Token(), m.Lease().Token())
	})
}

// While one of them is told of the loss, the others are released.
func TestReadersThatShareALeaseAllHearOfItsLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		client := newClient(t, pool, redimutex.WithLeaseReuse(time.Minute), redimutex.WithTTL(3*time.Minute))
		var leases []*redimutex.Lease
		for range 3 {
			l, err := client.RWMutex("k").RAcquire(t.Context())
			require.NoError(t, err)
			leases = append(leases, l)
		}
		var told atomic.Bool
		client.Observe(&redimutex.Trace{Lost: func(e redimutex.Event) {
			if told.Swap(true) {
				return
			}
			var others sync.WaitGroup
			for _, l := range leases {
				if l != e.Lease {
					others.Go(func() { assert.ErrorIs(t, l.Release(t.Context()), redimutex.ErrLost) })
				}
			}
			others.Wait()
		}})
		server.FlushAll()
		<-leases[0].Done()
		synctest.Wait()
		for _, l := range leases {
			assert.ErrorIs(t, l.Err(), redimutex.ErrLost)
		}
		assert.EqualValues(t, 3, client.Stats().LostDeleted)
	})
}
