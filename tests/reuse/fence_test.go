package reuse_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// back is by how much clocks are behind here, and far more than a lease is reused.
const back = time.Minute

// reused makes holds that follow each other in one lease, and returns the fence of the last.
func reused(t *testing.T, m *redimutex.Mutex) int64 {
	t.Helper()
	token, last, again := "", int64(0), 0
	for began := time.Now(); time.Since(began) < 30*time.Millisecond || again == 0; {
		m.Lock()
		l := m.Lease()
		require.Greater(t, l.Fence(), last)
		if l.Token() == token {
			again++
		}
		token, last = l.Token(), l.Fence()
		m.Unlock()
		require.Less(t, time.Since(began), 10*time.Second, "no hold has followed another without asking the server")
	}
	return last
}

func TestFencesOfAReusedLeaseStayBelowTheNextHoldersWhenTheServersClockIsSetBack(t *testing.T) {
	for name, scene := range map[string]struct {
		opts       []redimutex.Option
		handedOver bool
	}{
		"polling":            {},
		"queue":              {opts: []redimutex.Option{redimutex.WithQueue()}},
		"queue, handed over": {[]redimutex.Option{redimutex.WithQueue()}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, clock := redistest.Clocked(t)
			opts := append(scene.opts, redimutex.WithFencing(), redimutex.WithTTL(time.Minute))
			c := redimutex.NewClient([]redimutex.Pool{s.Pool()}, append(opts, redimutex.WithLeaseReuse(20*time.Second))...)
			if scene.handedOver {
				handOver(t, s, newClient(t, s.Pool(), opts...).Mutex("k"))
			}
			last := reused(t, c.Mutex("k"))
			clock.Set(-back)
			require.NoError(t, c.Close(), "which gives the lease back")
			next := newClient(t, s.Pool(), opts...).Mutex("k")
			require.NoError(t, next.LockContext(t.Context(), 30*time.Second))
			assert.Greater(t, next.Lease().Fence(), last, "the resource would refuse the rightful holder")
			assert.NoError(t, next.UnlockContext(t.Context()))
		})
	}
}

// handOver locks m, and unlocks it when somebody waits in the queue on the server.
func handOver(t *testing.T, s *redistest.Server, m *redimutex.Mutex) {
	t.Helper()
	require.NoError(t, m.LockContext(t.Context(), 0))
	before := len(s.Keys())
	var over sync.WaitGroup
	over.Go(func() {
		for len(s.Keys()) == before && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
	t.Cleanup(over.Wait)
}

func TestFencesOfAReusedLeaseStayBelowTheNextHoldersOnAReplicaWhoseClockIsBehind(t *testing.T) {
	for name, opts := range map[string][]redimutex.Option{
		"promoted":                    nil,
		"promoted, with WithReplicas": {redimutex.WithReplicas(1, 5*time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, _ := redistest.ClockedPrimary(t)
			replica, clock := redistest.ClockedReplica(t, primary)
			clock.Set(-back)
			opts := append(opts, redimutex.WithFencing(), redimutex.WithTTL(time.Minute))
			c := redimutex.NewClient([]redimutex.Pool{primary.Pool()}, append(opts, redimutex.WithLeaseReuse(20*time.Second))...)
			last := reused(t, c.Mutex("k"))
			require.NoError(t, c.Close(), "which gives the lease back")
			redistest.Wait(t, "the replica has all that the primary has", func() bool {
				return replica.Get("k") == "" && len(replica.Keys()) == len(primary.Keys())
			})
			replica.Do("REPLICAOF", "NO", "ONE")
			next := newClient(t, replica.Pool(), redimutex.WithFencing()).Mutex("k")
			require.NoError(t, next.LockContext(t.Context(), 30*time.Second))
			assert.Greater(t, next.Lease().Fence(), last, "the resource would refuse the rightful holder")
			assert.NoError(t, next.UnlockContext(t.Context()))
		})
	}
}
