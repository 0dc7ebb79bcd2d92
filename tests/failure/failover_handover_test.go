package failure_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A Handover that the replicas do not have would be lost with the primary. So would a lock that was taken over.
func TestAHandOverIsOnTheReplicasAndSurvivesAFailover(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 1)
	opts := []redimutex.Option{
		redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10 * time.Second), redimutex.WithReplicas(1, 10*time.Second),
	}
	board := at(primary.Addr())
	giver, taker := newClient(t, board.pool(t), opts...).Mutex("k"), newClient(t, board.pool(t), opts...).Mutex("k")
	handOver := func() redimutex.Handover {
		l, err := giver.Acquire(t.Context())
		require.NoError(t, err)
		h, err := l.HandOver(t.Context(), time.Minute)
		require.NoError(t, err)
		return h
	}
	h := handOver()
	assert.Equal(t, primary.Get("k"), replicas[0].Get("k"), "the Handover is there when HandOver returns")
	require.NoError(t, taker.TakeOver(t.Context(), h))
	assert.Equal(t, taker.Lease().Token(), replicas[0].Get("k"), "and the taker when TakeOver returns")
	require.NoError(t, taker.UnlockContext(t.Context()))

	h = handOver()
	primary.Kill()
	replicas[0].Promote()
	board.to(replicas[0].Addr())
	alone := newMutex(t, replicas[0].Pool(), "k")
	require.ErrorIs(t, alone.TryLockContext(t.Context()), redimutex.ErrLocked)
	require.NoError(t, alone.TakeOver(t.Context(), h))
	require.NoError(t, alone.UnlockContext(t.Context()))
}

func TestATakeOverThatNoReplicaConfirmsMayBeRepeated(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 1)
	client := newClient(t, primary.Pool(), redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10*time.Second))
	giver, taker := client.Mutex("k"), client.Mutex("k", redimutex.WithReplicas(1, 50*time.Millisecond))
	l, err := giver.Acquire(t.Context())
	require.NoError(t, err)
	h, err := l.HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	replicas[0].Pause()
	serverFailure(t, taker.TakeOver(t.Context(), h), "0 of the 1 wanted replicas")
	assert.Nil(t, taker.Lease())
	replicas[0].Resume()
	redistest.Wait(t, "the replica confirms it", func() bool { return taker.TakeOver(t.Context(), h) == nil })
	assert.Equal(t, taker.Lease().Token(), replicas[0].Get("k"))
	require.NoError(t, taker.UnlockContext(t.Context()))
}

// The replicas may confirm more than a node timeout after the call. TakeOver still waits until the lock is given back.
func TestATakeOverThatCloseOvertakesWhileReplicasLagHasGivenBackWhenItReturns(t *testing.T) {
	t.Parallel()
	const node = 200 * time.Millisecond
	primary, replicas := redistest.Replicas(t, 1)
	l, err := newClient(t, primary.Pool()).Mutex("k").Acquire(t.Context())
	require.NoError(t, err)
	h, err := l.HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	given := primary.Get("k")

	var closing atomic.Bool
	pool := redistest.NewBetween(primary.Pool())
	pool.Set(func(command redistest.Command) (any, error) {
		if closing.Load() && slices.Contains(command.Args, any("k")) {
			time.Sleep(node / 2)
		}
		return command.Run()
	})
	client := redimutex.NewClient([]redimutex.Pool{pool},
		redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(node), redimutex.WithReplicas(1, 10*time.Minute))
	require.NoError(t, client.Mutex("other").Do(t.Context(), func(context.Context) error { return nil })) // the clock is known now
	held, err := client.Mutex("another").Acquire(t.Context())
	require.NoError(t, err)
	replicas[0].Pause()
	began, overtaken, closed := time.Now(), make(chan error), make(chan error)
	go func() { overtaken <- client.Mutex("k").TakeOver(t.Context(), h) }()
	redistest.Wait(t, "it is taken over, and longer than a node timeout under way", func() bool {
		return primary.Get("k") != given && time.Since(began) > node
	})
	closing.Store(true)
	go func() { closed <- client.Close() }()
	<-held.Done()
	replicas[0].Resume()
	require.ErrorIs(t, <-overtaken, redimutex.ErrClosed)
	assert.Equal(t, given, primary.Get("k"))
	require.NoError(t, <-closed)
}
