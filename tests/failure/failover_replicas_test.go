package failure_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// serverFailure asserts that err is ErrUnavailable, with these words of server 0.
func serverFailure(t *testing.T, err error, words string) {
	t.Helper()
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.NotErrorIs(t, err, redimutex.ErrLocked)
	var node *redimutex.NodeError
	require.ErrorAs(t, err, &node)
	assert.Zero(t, node.Node)
	assert.Contains(t, node.Error(), words)
}

func TestLockIsOnTheReplicasWhenLockReturns(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 2)
	m := newMutex(t, primary.Pool(), "k", redimutex.WithReplicas(2, 20*time.Second), redimutex.WithTTL(time.Minute))
	for range 20 {
		m.Lock()
		for _, r := range replicas {
			assert.Equal(t, m.Lease().Token(), r.Get("k"))
		}
		m.Unlock()
	}
}

func TestFailoverToAConfirmedReplicaKeepsTheLock(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 2)
	replicas[1].Pause()
	holder := newMutex(t, primary.Pool(), "k", redimutex.WithReplicas(1, 20*time.Second), redimutex.WithTTL(time.Minute))
	holder.Lock()
	primary.Kill()
	replicas[0].Do("REPLICAOF", "NO", "ONE")
	assert.ErrorIs(t, newMutex(t, replicas[0].Pool(), "k").TryLockContext(t.Context()), redimutex.ErrLocked)
	replicas[1].Resume()
}

// Each case needs more replicas than can confirm. The write is taken back, so that it locks no caller out.
func TestTooFewReplicasReleaseAndReport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ want, paused int }{
		"one of two paused, two wanted": {2, 1},
		"both paused, one wanted":       {1, 2},
		"more wanted than there are":    {3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, replicas := redistest.Replicas(t, 2)
			for _, r := range replicas[:c.paused] {
				r.Pause()
			}
			client := newClient(t, primary.Pool(), redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(20*time.Second))
			m := client.Mutex("k", redimutex.WithReplicas(c.want, 50*time.Millisecond),
				redimutex.WithPollInterval(time.Second)) // a second try would find what the first one has left
			serverFailure(t, m.TryLockContext(t.Context()), "wanted replicas confirmed within 50ms")
			assert.Nil(t, m.Lease())
			redistest.Wait(t, "the release on the primary", func() bool { return !primary.Exists("k") })

			err := m.LockContext(t.Context(), 200*time.Millisecond)
			serverFailure(t, err, "")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			for _, r := range replicas[:c.paused] {
				r.Resume()
			}
			if c.paused > 0 {
				patient := client.Mutex("k", redimutex.WithReplicas(c.want, 20*time.Second))
				require.NoError(t, patient.LockContext(t.Context(), 0), "once they go on, it can be locked")
				patient.Unlock()
			}
			redistest.Wait(t, "no key that nobody owns", func() bool { return len(primary.Keys()) == 0 })
		})
	}
}

// The primary always answers, so a renewal can fail only for want of replicas.
func TestRenewalNeedsTheReplicasToo(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 2)
	var mu sync.Mutex
	succeeded, failed := 0, []error(nil)
	m := newMutex(t, primary.Pool(), "k", redimutex.WithReplicas(1, 1500*time.Millisecond),
		redimutex.WithTTL(9*time.Second), redimutex.WithNodeTimeout(2500*time.Millisecond),
		redimutex.WithTrace(&redimutex.Trace{Renewed: func(e redimutex.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Err == nil {
				succeeded++
			} else {
				failed = append(failed, e.Err)
			}
		}}))
	require.NoError(t, m.LockContext(t.Context(), 0))
	lease := m.Lease()
	replicas[0].Pause()
	redistest.Wait(t, "two renewals, for which one replica is enough", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return succeeded >= 2 || lease.Err() != nil
	})
	require.NoError(t, lease.Err())

	replicas[1].Pause()
	redistest.Wait(t, "the loss", func() bool { return locktest.Ended(lease.Done()) })
	var lost *redimutex.LostError
	require.ErrorAs(t, lease.Err(), &lost)
	assert.Equal(t, &redimutex.LostError{Key: "k", Reason: redimutex.Expired}, lost)
	require.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
	for _, r := range replicas {
		r.Resume()
	}
	mu.Lock()
	defer mu.Unlock()
	const words = "wanted replicas confirmed within 1.5s"
	i := slices.IndexFunc(failed, func(err error) bool { return strings.Contains(err.Error(), words) })
	require.GreaterOrEqual(t, i, 0, "%v", failed)
	serverFailure(t, failed[i], words)
}

// From Redis 7.2 on, WAIT is for the writes of its own connection. Without a write on it, WAIT confirms at once.
func TestAnExtensionOfALockThatLivesLongerNeedsTheReplicasToo(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 1)
	pool := primary.Pool()
	pool.MaxIdle = 0 // each operation has a connection of its own
	client := newClient(t, pool, redimutex.WithReplicas(1, 300*time.Millisecond), redimutex.WithoutRenewal(),
		redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second))
	leases := make(map[string]*redimutex.Lease)
	for kind, acquire := range map[string]locktest.Acquire{
		"Mutex": client.Mutex("m").Acquire, "MutexAll": client.MutexAll([]string{"a", "b"}).Acquire,
		"Semaphore": client.Semaphore("s", 1).Acquire,
		"writer":    client.RWMutex("w").Acquire, "reader": client.RWMutex("r").RAcquire,
	} {
		l, err := acquire(t.Context())
		require.NoError(t, err)
		leases[kind] = l
	}
	replicas[0].Pause()
	for kind, l := range leases {
		for _, ttl := range []time.Duration{time.Hour, 10 * time.Minute} {
			assert.ErrorIs(t, l.Extend(t.Context(), ttl), redimutex.ErrUnavailable, "%s, %v", kind, ttl)
		}
		assert.Less(t, time.Until(l.Until()), time.Minute)
	}
	replicas[0].Resume()
}

// The message reports that the primary has given the lock to the waiter. It says nothing about the replicas.
func TestWhatTheQueueHandsOffHasToBeOnTheReplicasToo(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 1)
	for range 4 { // a waiter whose last look is not recent asks again in any case
		handsOff(t, primary, replicas[0])
	}
}

func handsOff(t *testing.T, primary, replica *redistest.Server) {
	t.Helper()
	opts := []redimutex.Option{redimutex.WithTTL(5 * time.Minute), redimutex.WithQueue()}
	holder := newMutex(t, primary.Pool(), "k", append(slices.Clip(opts), redimutex.WithNodeTimeout(20*time.Second))...)
	require.NoError(t, holder.LockContext(t.Context(), 0))
	tried, got := make(chan error, 1000), make(chan error, 1)
	m := newMutex(t, primary.Pool(), "k", append(opts, redimutex.WithReplicas(1, 200*time.Millisecond), redimutex.WithNodeTimeout(500*time.Millisecond),
		redimutex.WithTrace(&redimutex.Trace{Attempt: func(e redimutex.Event) { tried <- e.Err }}))...)
	go func() { got <- m.LockContext(t.Context(), 0) }()
	locktest.WaitQueued(t, primary, "k", 1)
	replica.Pause()
	require.NoError(t, holder.UnlockContext(t.Context()))
	for err := error(nil); !errors.Is(err, redimutex.ErrUnavailable); {
		select {
		case err = <-tried:
		case err := <-got:
			replica.Resume()
			require.Fail(t, "it has a lock that no replica has", "%v", err)
		}
	}
	replica.Resume()
	require.NoError(t, redistest.Receive(t, "the lock, once the replica answers", got))
	m.Unlock()
	redistest.Wait(t, "the lock to be free", func() bool { return !primary.Exists("k") })
}

// Renewals of locks with replicas wait for the replica as long as they may. The other lock does not need it.
func TestALockWithoutReplicasIsRenewedWhileAReplicaIsStopped(t *testing.T) {
	t.Parallel()
	const attempts = 3
	for attempt := 1; ; attempt++ {
		err, late := besideAStoppedReplica(t)
		if err == nil {
			return
		}
		if late < 200*time.Millisecond || attempt == attempts {
			assert.NoError(t, err, "the machine was late by %v", late)
			return
		}
	}
}

// besideAStoppedReplica returns the error of a lock without replicas, and how late the machine was.
func besideAStoppedReplica(t *testing.T) (lost error, late time.Duration) {
	t.Helper()
	primary, replicas := redistest.Replicas(t, 1)
	client := newClient(t, primary.Pool())
	var waiting []*redimutex.Lease
	for i := range 16 {
		m := client.Mutex(fmt.Sprintf("replicated %d", i), redimutex.WithTTL(2500*time.Millisecond), redimutex.WithNodeTimeout(200*time.Millisecond),
			redimutex.WithReplicas(1, 2*time.Second))
		require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
		waiting = append(waiting, m.Lease())
	}
	plain := client.Mutex("plain", redimutex.WithTTL(time.Second), redimutex.WithNodeTimeout(200*time.Millisecond))
	require.NoError(t, plain.LockContext(t.Context(), 20*time.Second))
	lateness := redistest.MeasureLateness()
	replicas[0].Pause()
	for _, l := range waiting { // until the last of them is lost
		select {
		case <-l.Done():
		case <-plain.Lease().Done():
		}
	}
	lost = plain.Lease().Err()
	late = lateness.Stop()
	replicas[0].Resume()
	return lost, late
}
