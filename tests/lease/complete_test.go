package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// The race detector is the judge: a renewal reads what the acquisition has written.
func TestAHoldThatWasWaitedForIsCompleteBeforeItIsRenewed(t *testing.T) {
	t.Parallel()
	for name, count := range map[string]int{"one server": 1, "three servers": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var pools []redimutex.Pool
				for range count {
					_, pool := redistest.Virtual(t)
					pools = append(pools, pool)
				}
				const ttl = time.Second
				opts := []redimutex.Option{redimutex.WithFencing(), redimutex.WithTTL(ttl)}
				if count == 1 {
					opts = append(opts, redimutex.WithQueue())
				}
				held := newClient(t, pools, opts...).Mutex("k")
				waiter := newClient(t, pools, opts...).Mutex("k")
				for range 10 {
					require.NoError(t, held.LockContext(t.Context(), time.Minute))
					locked := make(chan error)
					go func() { locked <- waiter.LockContext(t.Context(), time.Minute) }()
					time.Sleep(ttl / 2) // it queues
					require.NoError(t, held.UnlockContext(t.Context()))
					require.NoError(t, <-locked)
					time.Sleep(ttl) // some renewals
					assert.NoError(t, waiter.UnlockContext(t.Context()))
				}
			})
		})
	}
}
