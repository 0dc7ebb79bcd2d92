package topologies_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"

	"github.com/redimutex/redimutex"
)

// A retrying pool has redisc follow redirections. Its connections know Do, Close and Err, and nothing else.
type retrying struct{ cluster *redisc.Cluster }

func (p retrying) Get() redis.Conn {
	c := p.cluster.Get()
	retry, err := redisc.RetryConn(c, 3, 100*time.Millisecond)
	if err != nil {
		return c
	}
	return retry
}

func TestClusterLeasesAreRenewedOverRetryConns(t *testing.T) {
	t.Parallel()
	_, pool := startCluster(t)
	client := locktest.Client(t, []redimutex.Pool{retrying{pool()}}, redimutex.WithTTL(3*time.Second), redimutex.WithNodeTimeout(time.Second))
	var mutexes []*redimutex.Mutex
	for _, key := range []string{"a", "b", "c", "d"} {
		m := client.Mutex(key)
		require.NoError(t, m.LockContext(patience(t), 0))
		mutexes = append(mutexes, m)
	}
	redistest.Wait(t, "each is renewed", func() bool { return client.Stats().Renewed >= 8 })
	for _, m := range mutexes {
		require.NoError(t, m.Lease().Err())
		require.NoError(t, m.UnlockContext(patience(t)))
		require.NoError(t, m.LockContext(patience(t), 0))
		require.NoError(t, m.UnlockContext(patience(t)))
	}
}
