package lease_test

import (
	"testing"
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
			t.Parallel()
			var pools []redimutex.Pool
			for range count {
				pools = append(pools, redistest.Start(t).Pool())
			}
			const ttl = 150 * time.Millisecond
			opts := []redimutex.Option{redimutex.WithQueue(), redimutex.WithFencing(), redimutex.WithTTL(ttl)}
			locked := make(chan struct{}, 1)
			var clients []*redimutex.Client
			for range 2 {
				clients = append(clients, newClient(t, pools, opts...))
			}
			held := newClient(t, pools, opts...).Mutex("k")
			for turn := range 20 {
				require.NoError(t, held.LockContext(t.Context(), time.Minute))
				c := clients[turn%2]
				m := c.Mutex("k")
				go func() {
					assert.NoError(t, m.LockContext(t.Context(), time.Minute))
					locked <- struct{}{}
				}()
				redistest.Wait(t, "somebody waits", func() bool { return c.Stats().Waiting == 1 })
				time.Sleep(ttl / 5) // it queues
				_ = held.UnlockContext(t.Context())
				<-locked
				time.Sleep(ttl * 2 / 3) // a renewal is due at a third
				_ = m.UnlockContext(t.Context())
			}
		})
	}
}
