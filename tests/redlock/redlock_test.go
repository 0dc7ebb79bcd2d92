package redlock_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// nodes returns the servers of all NodeErrors in a tree of errors.
func nodes(err error) (found []int) {
	switch e := err.(type) { //nolint:errorlint // this walks the tree itself
	case *redimutex.NodeError:
		return []int{e.Node}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			found = append(found, nodes(inner)...)
		}
	case interface{ Unwrap() error }:
		return nodes(e.Unwrap())
	}
	return found
}

func TestRedlockExcludesOverSeveralServers(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		c := locktest.Start(t, n)
		pools, asPools := c.Pools()
		m := redimutex.NewRedlock(asPools, "k", redimutex.WithTTL(time.Minute), redimutex.WithOwner("first"))
		m.Lock()
		redistest.Wait(t, "the key on every server", func() bool { return c.All("k", m.Lease().Token()) })
		other := c.Client(t, redimutex.WithTTL(time.Minute)).Mutex("k")
		err := other.TryLockContext(t.Context())
		require.ErrorIs(t, err, redimutex.ErrLocked)
		var locked *redimutex.LockedError
		require.ErrorAs(t, err, &locked)
		assert.Equal(t, "first", locked.Owner)
		require.NoError(t, m.UnlockContext(t.Context()))
		c.Empty(t, pools)
		require.NoError(t, other.LockContext(t.Context(), time.Minute))
		assert.False(t, m.TryLock())
		other.Unlock()
	}
}

// With an even number of servers, the votes could be tied for ever if the waiters kept step.
func TestRedlockResolvesTiesAndLosesNoUpdate(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 4} {
		c := locktest.Start(t, n)
		counter := 0
		var mu sync.Mutex // for the race detector, which can't see the order that the servers make
		var group sync.WaitGroup
		for range 6 {
			m := c.Client(t, redimutex.WithTTL(30*time.Second), redimutex.WithPollInterval(20*time.Millisecond)).Mutex("k")
			for range 2 {
				group.Go(func() {
					for range 5 {
						m.Lock()
						mu.Lock()
						read := counter
						mu.Unlock()
						mu.Lock()
						counter = read + 1
						mu.Unlock()
						m.Unlock()
					}
				})
			}
		}
		group.Wait()
		assert.Equal(t, 60, counter)
	}
}

func TestRedlockWorksWhileAMinorityHangs(t *testing.T) {
	c := locktest.Start(t, 5)
	for hung := 1; hung <= 2; hung++ {
		pools, asPools := c.Pools()
		client := newClientOver(t, asPools, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(2*time.Second))
		m := client.Mutex("k")
		m.Lock()
		m.Unlock()
		for _, s := range c[:hung] {
			s.Pause()
		}
		before := locktest.Goroutines()
		var took []time.Duration
		most := 0
		for range 300 {
			began := time.Now()
			require.NoError(t, m.LockContext(t.Context(), 0))
			require.NoError(t, m.UnlockContext(t.Context()))
			took = append(took, time.Since(began))
			most = max(most, locktest.Goroutines())
		}
		slices.Sort(took)
		assert.Less(t, took[len(took)/2], 500*time.Millisecond, "a hung server is not waited for")
		assert.LessOrEqual(t, most, before+150, "goroutines that wait for a hung server")
		for _, p := range pools[:hung] {
			assert.LessOrEqual(t, p.ActiveCount(), 100, "connections that wait for a hung server")
		}
		t.Logf("%d of 5 hung: Lock and Unlock took %v in the median, %v at 99%%; %d goroutines at most, %d before",
			hung, took[len(took)/2], took[len(took)*99/100], most, before)
		for _, s := range c[:hung] {
			s.Resume()
		}
		c.Empty(t, pools)
	}
}

func TestRedlockWithoutAQuorumIsUnavailableInTime(t *testing.T) {
	t.Parallel()
	c := locktest.Start(t, 5)
	pools, asPools := c.Pools()
	client := newClientOver(t, asPools, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(20*time.Second))
	m := client.Mutex("k")
	m.Lock()
	m.Unlock()
	c.Empty(t, pools)
	for _, s := range c[:3] {
		s.Pause()
	}
	for range 5 {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := m.LockContext(ctx, 0)
		cancel()
		took := time.Since(began)
		assert.Less(t, took, 10*time.Second, "not the node timeout")
		t.Logf("returned %v after the limit", took-200*time.Millisecond)
		assert.ErrorIs(t, err, redimutex.ErrUnavailable)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, redimutex.ErrLocked)
		assert.Subset(t, nodes(err), []int{0, 1, 2})
	}
	for _, s := range c[:3] {
		s.Resume()
	}
	c.Empty(t, pools)
	require.NoError(t, m.LockContext(t.Context(), 0))
	assert.NoError(t, m.UnlockContext(t.Context()))
}

func TestRedlockLeavesNoOrphanOnServersThatHung(t *testing.T) {
	t.Parallel()
	c := locktest.Start(t, 3)
	pools, asPools := c.Pools()
	client := newClientOver(t, asPools, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(500*time.Millisecond))
	for round := range 8 {
		m := client.Mutex("k")
		hung := c[:1+round%2] // a minority, then a majority
		for _, s := range hung {
			s.Pause()
		}
		for range 3 {
			limit := 200 * time.Millisecond
			if len(hung) == 1 {
				limit = time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			if m.LockContext(ctx, 0) == nil {
				_ = m.UnlockContext(t.Context()) // on a slow machine the release goes on in the background
			} else {
				assert.Len(t, hung, 2)
			}
			cancel()
		}
		for _, s := range hung {
			s.Resume()
		}
		c.Empty(t, pools)
	}
}

func TestRedlockWorksWhileAMinorityIsDown(t *testing.T) {
	t.Parallel()
	c := locktest.Start(t, 3)
	client := c.Client(t, redimutex.WithTTL(20*time.Second))
	m := client.Mutex("k")
	c[0].Kill()
	for range 10 {
		require.NoError(t, m.LockContext(t.Context(), 0))
		require.NoError(t, m.Lease().Extend(t.Context(), time.Minute))
		require.NoError(t, m.UnlockContext(t.Context()))
	}
	c[1].Kill()
	err := m.TryLockContext(t.Context())
	assert.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.Subset(t, nodes(err), []int{0, 1})
	c[1].Restart()
	require.NoError(t, m.LockContext(t.Context(), 0))
	m.Unlock()
}

func TestRedlockHoldOutlivesAMinorityThatLostItsData(t *testing.T) {
	t.Parallel()
	c := locktest.Start(t, 3)
	client := c.Client(t, redimutex.WithTTL(3*time.Second), redimutex.WithNodeTimeout(time.Second))
	m := client.Mutex("k")
	m.Lock()
	l := m.Lease()
	redistest.Wait(t, "the key on every server", func() bool { return c.All("k", l.Token()) })
	c[0].Restart()
	assert.ErrorIs(t, c.Client(t).Mutex("k").TryLockContext(t.Context()), redimutex.ErrLocked, "the empty one is no quorum")
	renewed := client.Stats().Renewed
	redistest.Wait(t, "two renewals", func() bool { return client.Stats().Renewed >= renewed+2 })
	require.NoError(t, l.Err())

	// Two servers at once are a majority, and without a majority no vote is regained.
	c[0].Kill()
	c[1].Kill()
	c[0].Restart()
	c[1].Restart()
	redistest.Receive(t, "the loss", l.Done())
	assert.ErrorIs(t, l.Err(), redimutex.ErrLost)
	assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
}

func TestRedlockNeedsAMajorityToBeRefused(t *testing.T) {
	t.Parallel()
	c := locktest.Start(t, 3)
	m := c.Client(t, redimutex.WithTTL(20*time.Second)).Mutex("k")
	c[0].Do("LPUSH", "k", "not a lock")
	require.NoError(t, m.LockContext(t.Context(), 0), "two of three are enough")
	assert.NoError(t, m.UnlockContext(t.Context()))
	c[1].Do("LPUSH", "k", "not a lock")
	err := m.LockContext(t.Context(), 0)
	assert.ErrorContains(t, err, "WRONGTYPE")
	assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
	var node *redimutex.NodeError
	assert.ErrorAs(t, err, &node)
	assert.ErrorContains(t, locktest.PanicOf(m.Lock), "WRONGTYPE")
	assert.False(t, c[2].Exists("k") && c[2].PTTL("k") > time.Minute)
}

func TestRedlockUnlockTellsThatTooFewAnswered(t *testing.T) {
	t.Parallel()
	c := locktest.Start(t, 3)
	m := c.Client(t, redimutex.WithTTL(20*time.Second)).Mutex("k")
	m.Lock()
	l := m.Lease()
	redistest.Wait(t, "all votes", func() bool { return c.All("k", l.Token()) })
	c[0].Kill()
	c[1].Kill()
	err := l.Extend(t.Context(), time.Minute)
	assert.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.NoError(t, l.Err())
	err = m.UnlockContext(t.Context())
	assert.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.Subset(t, nodes(err), []int{0, 1})
	assert.ErrorIs(t, l.Err(), redimutex.ErrUnlocked)
	redistest.Wait(t, "the server that is there to have no key", func() bool { return !c[2].Exists("k") })
}
