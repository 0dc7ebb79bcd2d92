package redlock_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// When a hanging server is back, it executes what was sent to it, even if Close did not wait for that. Close has a fraction of
// the node timeout for the last releases, and the machine may stall meanwhile.
func TestAServerThatHangsDuringCloseGetsTheReleaseOfEachLock(t *testing.T) {
	redistest.Differs(t, "can't be stopped")
	together := func(leases []*redimutex.Lease) {
		var all sync.WaitGroup
		for _, l := range leases {
			all.Go(func() { _ = l.Release(t.Context()) })
		}
		all.Wait()
	}
	for name, end := range map[string]func(*redimutex.Client, []*redimutex.Lease){
		"unlock, close": func(c *redimutex.Client, l []*redimutex.Lease) { together(l); c.Close() },
		"close, unlock": func(c *redimutex.Client, l []*redimutex.Lease) { c.Close(); together(l) },
	} {
		for kind, pool := range map[string]func(*redistest.Server) redimutex.Pool{
			"plain": func(s *redistest.Server) redimutex.Pool { return s.Pool() },
			"ours":  func(s *redistest.Server) redimutex.Pool { return redimutex.NewPoolAt("tcp", s.Addr()) },
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				servers := locktest.Start(t, 3)
				var pools []redimutex.Pool
				for _, s := range servers {
					pools = append(pools, pool(s))
				}
				c := redimutex.NewClient(pools, redimutex.WithTTL(10*time.Minute), redimutex.WithNodeTimeout(6*time.Second))
				warm(t, c.Mutex("k"))
				var leases []*redimutex.Lease
				for i := range 200 {
					l, err := c.Mutex(fmt.Sprintf("%0200d", i)).Acquire(t.Context())
					require.NoError(t, err)
					leases = append(leases, l)
				}
				servers[2].Pause()
				end(c, leases)
				servers[2].Resume()
				redistest.Wait(t, "the keys to go", func() bool { return len(servers[2].Keys()) == 0 })
			})
		}
	}
}
