package topologies_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
)

func TestClusterHandsOverALockWhoseSlotMovesMeanwhile(t *testing.T) {
	t.Parallel()
	c, pool := startCluster(t)
	const key = "a{b}c"
	opts := []redimutex.Option{redimutex.WithTTL(time.Minute), redimutex.WithFencing(), redimutex.WithNodeTimeout(10 * time.Second)}
	giver, taker, third := locktest.Mutex(t, pool(), key, opts...), locktest.Mutex(t, pool(), key, opts...), locktest.Mutex(t, pool(), key, opts...)
	for range 2 {
		l, err := giver.Acquire(patience(t))
		require.NoError(t, err)
		h, err := l.HandOver(patience(t), time.Minute)
		require.NoError(t, err)
		c.Move(key, (c.Owner(key)+1)%3)
		c.Agree(key)
		require.ErrorIs(t, third.TryLockContext(patience(t)), redimutex.ErrLocked)
		require.NoError(t, taker.TakeOver(patience(t), h))
		assert.Equal(t, taker.Lease().Token(), c.Nodes[c.Owner(key)].Get(key))
		assert.Greater(t, taker.Lease().Fence(), l.Fence())
		require.ErrorIs(t, third.TakeOver(patience(t), h), redimutex.ErrLost)
		require.NoError(t, taker.UnlockContext(patience(t)))
	}
}

func TestClusterCountsThePermitsInUseWhereverTheirSlotIs(t *testing.T) {
	t.Parallel()
	c, pool := startCluster(t)
	const key = "permits"
	semaphore := func() *redimutex.Semaphore {
		opts := []redimutex.Option{redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10 * time.Second)}
		return locktest.Client(t, pool(), opts...).Semaphore(key, 3)
	}
	holder := semaphore()
	for want := range 3 {
		for _, s := range []*redimutex.Semaphore{holder, semaphore()} { // one that knows the node, and one that does not
			n, err := s.InUse(patience(t))
			require.NoError(t, err)
			assert.Equal(t, want, n)
		}
		l, err := holder.Acquire(patience(t))
		require.NoError(t, err)
		defer func() { assert.NoError(t, l.Release(patience(t))) }()
		c.Move(key, (c.Owner(key)+1)%3)
		c.Agree(key)
	}
}
