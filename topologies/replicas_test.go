package topologies_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestOneOfTwoReplicasIsEnoughWhenOneIsWanted(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 2)
	replicas[0].Pause()
	m := newMutex(t, primary.Pool(), "k", redimutex.WithTTL(time.Minute), redimutex.WithReplicas(1, 10*time.Second))

	require.NoError(t, m.TryLockContext(context.Background()))
	assert.Equal(t, m.Lease().Token(), replicas[1].Get("k"), "the replica has the lock when Lock returns")
	require.NoError(t, m.Lease().Extend(context.Background(), time.Minute))
	require.NoError(t, m.UnlockContext(context.Background()))

	replicas[0].Resume()
	redistest.Wait(t, "the paused replica catches up", func() bool { return !exists(t, replicas[0], "k") })
}

func TestLockThatNoReplicaConfirmsIsGivenBack(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 2)
	for _, r := range replicas {
		r.Pause()
	}
	m := newMutex(t, primary.Pool(), "k", redimutex.WithTTL(time.Minute), redimutex.WithReplicas(1, 50*time.Millisecond))

	err := m.TryLockContext(context.Background())
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
	var node *redimutex.NodeError
	require.ErrorAs(t, err, &node)
	assert.Equal(t, 0, node.Node)
	assert.ErrorContains(t, node, "0 of the 1 wanted replicas")
	assert.Nil(t, m.Lease())
	redistest.Wait(t, "the primary has no key", func() bool { return !exists(t, primary, "k") })

	for _, r := range replicas {
		r.Resume()
	}
	require.NoError(t, m.LockContext(patience(t), 0))
	require.NoError(t, m.UnlockContext(context.Background()))
	for i, s := range append(replicas, primary) {
		redistest.Wait(t, "no key anywhere", func() bool { return !exists(t, s, "k") })
		assert.Empty(t, s.Keys(), "server %d", i)
	}
}

func TestRenewalThatNoReplicaConfirmsDoesNotCount(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 2)
	m := newMutex(t, primary.Pool(), "k", redimutex.WithTTL(3*time.Second), redimutex.WithReplicas(1, 100*time.Millisecond))
	require.NoError(t, m.LockContext(patience(t), 0))
	for _, r := range replicas {
		r.Pause()
	}
	l := m.Lease()
	select {
	case <-l.Done():
	case <-patience(t).Done():
		t.Fatal("the loss is not told")
	}
	var lost *redimutex.LostError
	require.ErrorAs(t, l.Err(), &lost)
	assert.Equal(t, redimutex.Expired, lost.Reason, "the primary has the key, but a failover would forget it")
	require.ErrorIs(t, m.UnlockContext(context.Background()), redimutex.ErrLost)
	redistest.Wait(t, "the primary has no key", func() bool { return !exists(t, primary, "k") })
}

func TestUnlockDoesNotWaitForReplicas(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 2)
	m := newMutex(t, primary.Pool(), "k", redimutex.WithTTL(time.Minute), redimutex.WithReplicas(2, 10*time.Second))
	require.NoError(t, m.LockContext(patience(t), 0))
	for _, r := range replicas {
		r.Pause()
	}
	require.NoError(t, m.UnlockContext(context.Background()))
	assert.False(t, exists(t, primary, "k"))
}

func TestReplicaThatIsAskedForTheLockRefusesIt(t *testing.T) {
	t.Parallel()
	_, replicas := redistest.Replicas(t, 1)
	m := newMutex(t, replicas[0].Pool(), "k")
	err := m.TryLockContext(context.Background())
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
	var node *redimutex.NodeError
	require.True(t, errors.As(err, &node))
	assert.ErrorContains(t, node, "READONLY")
}
