package kinds_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestNoWriterComesBetweenADowngradeAndWaitingReadersEnterWithIt(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		a, b, c := process(t, s, opts), process(t, s, opts), process(t, s, opts)
		for range 5 {
			l := start(t, a.Acquire).get(t)
			writers := []*call{start(t, b.Acquire), start(t, a.Acquire)}
			shown(t, s, "writers", 1)
			readers := []*call{start(t, c.RAcquire), start(t, c.RAcquire), start(t, b.RAcquire)}
			locktest.WaitInLine(t, c.Client(), 2)
			locktest.WaitInLine(t, b.Client(), 2)
			shown(t, s, "entitled", 2)
			require.NoError(t, l.Downgrade(t.Context()))
			for _, r := range readers {
				r.get(t)
			}
			for _, w := range writers {
				assert.False(t, w.over())
			}
			for _, r := range readers {
				release(t, r.lease)
			}
			for _, w := range writers {
				assert.False(t, w.over(), "one still reads")
			}
			assert.NoError(t, l.Err())
			release(t, l)
			var group sync.WaitGroup
			for _, w := range writers {
				group.Go(func() { <-w.done; assert.NoError(t, w.err); release(t, w.lease) })
			}
			group.Wait()
		}
		withTTLs(t, s)
	})
}

func TestADowngradeWithoutAnAnswerCountsAndMayBeRepeated(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		n := s.Proxy()
		opts = append(opts, redimutex.WithNodeTimeout(500*time.Millisecond), redimutex.WithTTL(time.Minute))
		a := newClient(t, n.Pool(), opts...).RWMutex("k")
		b := process(t, s, opts)
		for _, part := range []redistest.Part{redistest.Requests, redistest.Replies} {
			l := start(t, a.Acquire).get(t)
			n.Hold(part)
			err := l.Downgrade(t.Context())
			assert.ErrorIs(t, err, redimutex.ErrUnavailable)
			assert.NoError(t, l.Err())
			assert.Nil(t, a.Lease())
			n.Release(part)
			redistest.Wait(t, "the repeat", func() bool { return l.Downgrade(t.Context()) == nil })
			assert.True(t, b.TryRLock())
			b.RUnlock()
			release(t, l)
			redistest.Wait(t, "nothing to be left", func() bool { return !s.Exists("k") })
		}
	})
}

func TestARenewalOfTheWriterThatIsUnderWayNeverReportsADowngradeAsTaken(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		a, b := process(t, s, opts, redimutex.WithTTL(1500*time.Millisecond), redimutex.WithNodeTimeout(700*time.Millisecond)), process(t, s, opts)
		for range 4 {
			err := a.Do(t.Context(), func(ctx context.Context) error {
				l := redimutex.LeaseFrom(ctx)
				time.Sleep(time.Until(l.Until()) / 3) // it is renewed about now
				for range 20 {
					_ = l.Downgrade(ctx) // a repeat finds what the first call has done
				}
				if b.TryRLock() {
					defer b.RUnlock()
				}
				time.Sleep(200 * time.Millisecond)
				return context.Cause(ctx)
			})
			if lost := (*redimutex.LostError)(nil); errors.As(err, &lost) {
				assert.Equal(t, redimutex.Expired, lost.Reason, "as on a machine that is too slow for this TTL")
			}
		}
		assert.Zero(t, a.Client().Stats().LostTaken)
	})
}

func TestTheEndOfADowngradedHoldFreesTheLockWhateverTheReuse(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l, err := process(t, s, nil, redimutex.WithLeaseReuse(2*time.Minute)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Downgrade(t.Context()))
	release(t, l)
	redistest.Wait(t, "the lock is free", func() bool { return !s.Exists("k") })
}

func TestAWriterWhoseDowngradeFindsALossKeepsItsTurnUntilRUnlock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := process(t, s, nil)
	require.NoError(t, m.LockContext(t.Context(), 0))
	l := m.Lease()
	s.Do("DEL", "k")
	require.ErrorIs(t, l.Downgrade(t.Context()), redimutex.ErrLost)
	require.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrLocked)
	require.ErrorIs(t, m.RUnlockContext(t.Context()), redimutex.ErrLost)
	require.NoError(t, m.TryLockContext(t.Context()))
	m.Unlock()
}
