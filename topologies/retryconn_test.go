package topologies_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"

	"github.com/redimutex/redimutex"
)

// A retrying pool lets redisc follow redirections. Its connections support Do, Close and Err, and nothing else.
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
	client := locktest.Client(t, retrying{pool()}, redimutex.WithTTL(3*time.Second), redimutex.WithNodeTimeout(time.Second))
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

// A retryingCluster also has the other methods of the Cluster. So it can dial, and a subscription may lead to any node.
type retryingCluster struct{ *redisc.Cluster }

func (c retryingCluster) Get() redis.Conn { return retrying{c.Cluster}.Get() }

// A dialer is a retrying pool that can also dial, as a program may write it. Nothing shows that it leads to a cluster.
type dialer struct{ retrying }

func (d dialer) Dial() (redis.Conn, error) { return d.cluster.Dial() }

// A message reaches the listeners at all nodes. But the node that sends it counts only its own listeners as receivers.
func TestClusterHandsOffToOneWaiterOverRetryConns(t *testing.T) {
	t.Parallel()
	nodes, pool := startCluster(t)
	process := func(p redimutex.Pool) *redimutex.Client {
		return locktest.Client(t, p, redimutex.WithQueue(), redimutex.WithNodeTimeout(time.Second))
	}
	holders := []*redimutex.Client{process(retryingCluster{pool()}), process(retrying{pool()})} // the second one can't know of the cluster
	waiters := []*redimutex.Client{process(retryingCluster{pool()}), process(dialer{retrying{pool()}})}
	third := process(pool())
	for i := range 24 {
		first, second := holders[i%2], waiters[i/2%2]
		key := strconv.Itoa(i)
		held, waiter := first.Mutex(key), second.Mutex(key)
		require.NoError(t, held.LockContext(patience(t), 0))
		got := make(chan error, 1)
		go func() { got <- waiter.LockContext(patience(t), 0) }()
		redistest.Wait(t, "the waiter is queued, and listens", func() bool {
			listens := false
			for _, n := range nodes.Nodes {
				listens = listens || len(n.Do("PUBSUB", "CHANNELS", "redimutex:*").([]any)) > 0
			}
			return listens && nodes.Nodes[nodes.Owner(key)].Exists("redimutex:queue:{"+key+"}")
		})
		require.NoError(t, held.UnlockContext(patience(t)))
		require.NoError(t, <-got)
		assert.ErrorIs(t, third.Mutex(key).TryLockContext(patience(t)), redimutex.ErrLocked, "there is one holder")
		assert.NoError(t, waiter.UnlockContext(patience(t)))
	}
}
