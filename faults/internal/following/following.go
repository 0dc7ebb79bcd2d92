// Package following has pools that follow the primary of a Sentinel group or of a Cluster, as docs/topologies.md shows them.
// The end of the test closes them.
package following

import (
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/redimutex/redimutex/topologies"
)

// Closed makes the end of the test close p, and returns p.
func Closed[P interface{ Close() error }](t testing.TB, p P) P {
	t.Cleanup(func() { p.Close() })
	return p
}

// Sentinel returns a pool that asks the Sentinels at addrs for the primary.
func Sentinel(t testing.TB, addrs []string, name string) *redis.Pool {
	return Closed(t, topologies.SentinelPool(addrs, name))
}

// Cluster returns a pool that finds the nodes of a Cluster by some of their addrs.
func Cluster(t testing.TB, addrs []string) *redisc.Cluster {
	return Closed(t, topologies.ClusterPool(addrs))
}

// Refreshed returns a Cluster that asks for the map of slots again and again. It has to, because a primary that hangs can't
// say that it is no primary any more.
func Refreshed(t testing.TB, addrs []string, every time.Duration) *redisc.Cluster {
	c := Cluster(t, addrs)
	stop := make(chan struct{})
	var refreshing sync.WaitGroup
	refreshing.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			_ = c.Refresh() //nolint:errcheck // the next refresh may succeed
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		refreshing.Wait()
	})
	return c
}
