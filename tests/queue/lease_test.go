package queue_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// handed returns a Mutex that was handed the lock by another one. Both have opts.
func handed(t *testing.T, s *redistest.Server, opts ...redimutex.Option) *redimutex.Mutex {
	t.Helper()
	holder, m := newMutex(t, s.Pool(), opts...), newMutex(t, s.Pool(), opts...)
	require.NoError(t, holder.LockContext(t.Context(), time.Minute))
	got := startWaiting(t, s, m, 1)
	if err := holder.UnlockContext(t.Context()); err != nil {
		require.ErrorIs(t, err, redimutex.ErrUnavailable, "a slow machine: the release goes on in the background")
	}
	require.NoError(t, <-got)
	return m
}

func TestLockThatWasHandedOverIsExtendedToItsTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, option := range map[string]redimutex.Option{
		"renewed":         redimutex.WithTTL(10 * time.Second),
		"without renewal": redimutex.WithoutRenewal(),
		"maximal hold":    redimutex.WithMaxHold(time.Millisecond),
	} {
		m := handed(t, s, option)
		redistest.Wait(t, name, func() bool { return m.Lease().Err() != nil || time.Until(m.Lease().Until()) > 5*time.Second })
		assert.NoError(t, m.Lease().Err(), name)
		assert.Greater(t, s.PTTL("k"), time.Second, name)
		m.Unlock()
		assert.Empty(t, s.Keys(), name)
	}
}

func TestMinimalHoldOutlastsAHandOverAndLeavesNoQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder, m := newMutex(t, s.Pool()), newMutex(t, s.Pool(), redimutex.WithMinHold(time.Minute))
	for name, end := range map[string]func(){"handed off": func() { unlock(t, holder) }, "found by a look": func() { s.Do("DEL", key) }} {
		require.NoError(t, holder.LockContext(t.Context(), time.Minute))
		got := startWaiting(t, s, m, 1)
		end()
		require.NoError(t, <-got)
		unlock(t, m)
		assert.Greater(t, s.PTTL(key), 30*time.Second, name)
		assert.Equal(t, []string{key}, s.Keys(), name)
		s.Do("DEL", key)
		_ = holder.UnlockContext(t.Context()) // its lock was deleted
	}
}

func TestLossOfALockThatWasHandedOverIsToldInTime(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := handed(t, s, redimutex.WithTTL(2*time.Second), redimutex.WithNodeTimeout(time.Second))
	s.Pause()
	defer s.Resume()
	l := m.Lease()
	redistest.Receive(t, "the loss", l.Done())
	told := time.Now()
	require.ErrorIs(t, l.Err(), redimutex.ErrLost)
	assert.Less(t, told.Sub(l.Until()), slow)
	t.Logf("told %v before the end", l.Until().Sub(told))
}

// The waiter chooses how long the hand-off lasts, and not the releaser: the waiter has to know how long it has the lock.
func TestValidityAfterAHandOverIsThatOfTheServerWhateverTheOthersTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ttls := []time.Duration{60 * time.Millisecond, 10 * time.Second}
	for _, of := range [][2]time.Duration{{ttls[0], ttls[1]}, {ttls[1], ttls[0]}} {
		holder := newMutex(t, s.Pool(), redimutex.WithTTL(of[0]))
		m := newMutex(t, s.Pool(), redimutex.WithTTL(of[1]))
		for range 20 {
			require.NoError(t, holder.LockContext(t.Context(), time.Minute))
			locked := make(chan error, 1)
			go func() { locked <- m.LockContext(context.Background(), time.Minute) }()
			redistest.Wait(t, "the waiter waits, or has the lock", func() bool {
				return len(queueOf(t, s, "k")) == 1 || len(locked) == 1
			})
			_ = holder.UnlockContext(t.Context()) // a lease of 60 ms may have been lost before
			require.NoError(t, <-locked)
			left := time.Until(m.Lease().Until())
			token := m.Lease().Token()
			until := m.Lease().Until()
			if s.Get("k") != token {
				assert.False(t, time.Now().Before(until), "valid for another %v, and not on the server", left)
			}
			server := s.PTTL("k")
			if m.Lease().Until().Equal(until) && s.Get("k") == token {
				assert.GreaterOrEqual(t, time.Now().Add(server+time.Millisecond), until, "no longer than on the server")
			}
			_ = m.UnlockContext(t.Context())
		}
	}
}

func TestFencesRiseThroughHandOvers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var fences []int64
	var group sync.WaitGroup
	for range 4 {
		m := newMutex(t, s.Pool(), redimutex.WithFencing())
		group.Go(func() {
			for range 50 {
				m.Lock()
				l := m.Lease()
				fences = append(fences, l.Fence()) // the lock protects them
				_ = m.UnlockContext(t.Context())
			}
		})
	}
	group.Wait()
	require.Len(t, fences, 200)
	assert.True(t, slices.IsSorted(fences))
	assert.Len(t, slices.Compact(fences), 200, "no two the same")
	redistest.Wait(t, "only the fence is left", func() bool { return slices.Equal(s.Keys(), []string{server.FenceKey("k")}) })
}

func TestReplicasHaveALockThatWasHandedOver(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 1)
	var group sync.WaitGroup
	for range 3 {
		m := newMutex(t, primary.Pool(), redimutex.WithReplicas(1, 2*time.Second))
		group.Go(func() {
			for range 5 {
				if !assert.NoError(t, m.LockContext(context.Background(), time.Minute)) {
					return
				}
				assert.Equal(t, m.Lease().Token(), replicas[0].Get("k"))
				_ = m.UnlockContext(context.Background())
			}
		})
	}
	group.Wait()
	redistest.Wait(t, "nothing is left", func() bool { return len(primary.Keys()) == 0 })
}

func TestRestartGuardHoldsForQueuesToo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const ttl = 2 * time.Second
	start := time.Now()
	m := handed(t, s, redimutex.WithRestartGuard(), redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(ttl/2))
	assert.GreaterOrEqual(t, time.Since(start), ttl-20*time.Millisecond)
	m.Unlock()
	assert.Equal(t, []string{"redimutex:guard"}, s.Keys())
}
