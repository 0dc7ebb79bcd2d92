package queue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Polling gives the lesser of two clients about two fifths of the holds, and one of them up to sixty in a row.
func TestClientThatLocksAgainAtOnceCrowdsNobodyOutOfTheQueuesOfSeveralServers(t *testing.T) {
	t.Parallel()
	const (
		clients = 2
		total   = 200
		work    = 10 * time.Millisecond
	)
	var servers []*redistest.Server
	for range 3 {
		servers = append(servers, redistest.Real(t))
	}
	var (
		mu    sync.Mutex
		holds [clients]int
		sum   int
		group sync.WaitGroup

		last, run, longest int
	)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range holds {
		var pools []redimutex.Pool
		for _, s := range servers {
			pools = append(pools, s.Pool())
		}
		m := newRedlock(t, pools)
		group.Go(func() {
			for m.LockContext(ctx, 0) == nil {
				mu.Lock()
				holds[i]++
				if last != i {
					last, run = i, 0
				}
				run++
				longest = max(longest, run)
				if sum++; sum == total {
					cancel()
				}
				mu.Unlock()
				time.Sleep(work)
				_ = m.UnlockContext(context.Background())
			}
		})
	}
	group.Wait()
	t.Logf("holds: %v, and at most %d in a row", holds, longest)
	assert.Less(t, longest, total/5, "holds of one client in a row")
	assert.Greater(t, min(holds[0], holds[1]), total*3/10, "holds of the lesser of %v", holds)
}
