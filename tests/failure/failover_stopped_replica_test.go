package failure_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Renewals of the one kind wait for the replica as long as they may. The other lock has no use for it.
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

// besideAStoppedReplica returns how a lock without replicas fares, and how late the machine was.
func besideAStoppedReplica(t *testing.T) (lost error, late time.Duration) {
	t.Helper()
	primary, replicas := redistest.Replicas(t, 1)
	client := newClient(t, primary.Pool())
	var waiting []*redimutex.Lease
	for i := range 16 {
		m := client.Mutex(fmt.Sprintf("replicated %d", i), redimutex.WithTTL(4*time.Second), redimutex.WithNodeTimeout(200*time.Millisecond),
			redimutex.WithReplicas(1, 3*time.Second))
		require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
		waiting = append(waiting, m.Lease())
	}
	plain := client.Mutex("plain", redimutex.WithTTL(time.Second), redimutex.WithNodeTimeout(200*time.Millisecond))
	require.NoError(t, plain.LockContext(t.Context(), 20*time.Second))
	lateness := redistest.MeasureLateness()
	replicas[0].Pause()
	for _, l := range waiting { // until the last of them has given up
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
