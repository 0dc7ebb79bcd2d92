package topologies_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
	"github.com/redimutex/redimutex/topologies"
)

// oddKeys are corner cases of the rule for hash tags.
var oddKeys = []string{
	"k", "{k}", "tag", "{tag}", "{tag}k", "k{tag}", "a{tag}b{other}c", "{}", "{}k", "k{}", "{}{tag}", "{", "}", "}{", "{{", "}}",
	"{k", "k}", "a{b", "a}b", "{{tag}}", "{{}", "{}}", "a}b{c}d", "a{}b}c", "}{}{", "ключ", "{ключ}й", "with space", "new\nline", "\x00\xff", "{\x00}\xff",
}

// startCluster returns the nodes, and a function that makes pools for them, one for each process
// that the test plays.
func startCluster(t testing.TB) (*redistest.Cluster, func() *redisc.Cluster) {
	t.Helper()
	c := redistest.StartCluster(t)
	return c, func() *redisc.Cluster {
		p := topologies.ClusterPool(c.Addrs())
		t.Cleanup(func() { p.Close() })
		return p
	}
}

// promoted waits until another node than old serves key.
func promoted(t testing.TB, c *redistest.Cluster, key string, old int) int {
	t.Helper()
	now := -1
	redistest.Wait(t, "a replica serves the slot", func() bool {
		now = c.Owner(key)
		return now >= 0 && now != old
	})
	return now
}

func TestClusterKeepsLockAndFenceInOneSlotWhateverTheKey(t *testing.T) {
	t.Parallel()
	c, pool := startCluster(t)
	p := pool()
	fences := make(map[string]string)
	for _, key := range oddKeys {
		fence := server.FenceKey(key)
		assert.Equal(t, c.Slot(key), c.Slot(fence), "%q and %q", key, fence)
		assert.Empty(t, fences[fence], "%q and another key share %q", key, fence)
		fences[fence] = key

		m := locktest.Mutex(t, p, key, redimutex.WithFencing(), redimutex.WithNodeTimeout(4*time.Second))
		require.NoError(t, m.LockContext(patience(t), 0), "%q", key)
		node := c.Nodes[c.Owner(key)]
		assert.Equal(t, m.Lease().Token(), node.Get(key), "%q", key)
		assert.Equal(t, fmt.Sprint(m.Lease().Fence()), node.Get(fence), "%q", key)
		require.NoError(t, m.Lease().Extend(context.Background(), time.Minute), "%q", key)
		require.NoError(t, m.UnlockContext(context.Background()), "%q", key)
		assert.False(t, node.Exists(key), "%q", key)
	}
}

func TestClusterFirstTryOfAProcessFindsTheNode(t *testing.T) {
	t.Parallel()
	_, pool := startCluster(t)
	for i := range 10 { // whichever node each process asks first
		m := locktest.Mutex(t, pool(), fmt.Sprint("k", i), redimutex.WithNodeTimeout(4*time.Second))
		require.NoError(t, m.TryLockContext(context.Background()))
		require.NoError(t, m.UnlockContext(context.Background()))
	}
}

func TestTheRestartGuardPanicsForACluster(t *testing.T) {
	t.Parallel()
	_, pool := startCluster(t)
	assert.ErrorContains(t, locktest.PanicOf(func() { redimutex.New(pool(), "k", redimutex.WithRestartGuard()) }), "WithRestartGuard")
}

func TestClusterExcludesOverAllItsNodes(t *testing.T) {
	t.Parallel()
	_, pool := startCluster(t)
	a := locktest.Client(t, pool(), redimutex.WithNodeTimeout(4*time.Second))
	b := locktest.Client(t, pool(), redimutex.WithNodeTimeout(4*time.Second))
	for i := range 100 {
		key := fmt.Sprint("k", i)
		first, second := a.Mutex(key), b.Mutex(key)
		require.NoError(t, first.LockContext(patience(t), 0))
		require.ErrorIs(t, second.TryLockContext(context.Background()), redimutex.ErrLocked)
		require.NoError(t, first.UnlockContext(context.Background()))
		require.NoError(t, second.TryLockContext(context.Background()))
		require.NoError(t, second.UnlockContext(context.Background()))
	}
}

func TestClusterLocksSurviveTheMoveOfTheirSlot(t *testing.T) {
	t.Parallel()
	c, pool := startCluster(t)
	const key = "a{b}c"
	opts := []redimutex.Option{redimutex.WithTTL(10 * time.Second), redimutex.WithFencing()}
	crowd := startCrowd(t, locktest.Mutex(t, pool(), key, opts...), locktest.Mutex(t, pool(), key, opts...), locktest.Mutex(t, pool(), key, opts...))
	crowd.more(20)
	for i := range 6 {
		from := c.Owner(key)
		to := (from + 1 + i%2) % 3
		c.Move(key, to)
		crowd.more(20)
	}
	crowd.stop()
}

func TestClusterRenewsALeaseThatHasMoved(t *testing.T) {
	t.Parallel()
	c, pool := startCluster(t)
	ctx := patience(t)
	m := locktest.Mutex(t, pool(), "k", redimutex.WithTTL(6*time.Second), redimutex.WithNodeTimeout(time.Second))
	require.NoError(t, m.LockContext(ctx, 0))
	l := m.Lease()
	for range 2 {
		to := (c.Owner("k") + 1) % 3
		c.Move("k", to)
		before := l.Until()
		redistest.Wait(t, "a renewal on the new node", func() bool {
			require.NoError(t, l.Err())
			return l.Until().After(before)
		})
		assert.Equal(t, l.Token(), c.Nodes[to].Get("k"))
	}
	require.NoError(t, m.UnlockContext(ctx))
}

// The users of a pool may have taken all its connections to a node. redisc then tries the other nodes, if there are any.
func TestClusterRenewsALeaseThoughTheConnectionsToItsNodeAreTaken(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	alone := redistest.Real(t, "--cluster-enabled", "yes")
	alone.ServeAlone()
	for addr, addrs := range map[string][]string{c.Nodes[c.Owner("k")].Addr(): c.Addrs(), alone.Addr(): {alone.Addr()}} {
		for _, wait := range []bool{true, false} {
			t.Run(fmt.Sprint(len(addrs), "/wait ", wait), func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				var made []*redis.Pool // if redisc has made two for a node, it closes one at once
				p := topologies.ClusterPool(addrs)
				t.Cleanup(func() { p.Close() })
				create := p.CreatePool
				p.CreatePool = func(to string, opts ...redis.DialOption) (*redis.Pool, error) {
					limited, err := create(to, opts...)
					limited.MaxActive, limited.Wait = 2, wait
					mu.Lock()
					defer mu.Unlock()
					if strings.HasSuffix(to, addr[strings.LastIndex(addr, ":"):]) { // a lone node may not know its own host
						made = append(made, limited)
					}
					return limited, err
				}
				m := locktest.Mutex(t, p, fmt.Sprint("{k}", wait), redimutex.WithTTL(6*time.Second), redimutex.WithNodeTimeout(time.Second))
				require.NoError(t, m.LockContext(patience(t), 0))
				l := m.Lease()
				for taken := 0; taken < 2; {
					mu.Lock()
					all := slices.Clone(made)
					mu.Unlock()
					for _, limited := range all {
						if user := limited.Get(); user.Err() == nil {
							defer user.Close()
							taken++
						}
					}
				}
				for range 2 {
					before := l.Until()
					redistest.Wait(t, "a renewal", func() bool {
						require.NoError(t, l.Err())
						return l.Until().After(before)
					})
				}
			})
		}
	}
}

func TestClusterUnlocksALockThatHasMoved(t *testing.T) {
	t.Parallel()
	c, pool := startCluster(t)
	m := locktest.Mutex(t, pool(), "k", redimutex.WithTTL(time.Minute))
	require.NoError(t, m.LockContext(patience(t), 0))
	to := (c.Owner("k") + 1) % 3
	c.Move("k", to)
	require.NoError(t, m.UnlockContext(context.Background()))
	assert.False(t, c.Nodes[to].Exists("k"))

	c.Move("k", (to+1)%3)
	c.Agree("k")
	require.NoError(t, m.TryLockContext(context.Background()), "one try is enough, although the slot has moved")
	require.NoError(t, m.UnlockContext(context.Background()))
}

func TestClusterLockWaitsForASlotThatIsOnItsWay(t *testing.T) {
	t.Parallel()
	c, pool := startCluster(t)
	ctx := patience(t)
	m := locktest.Mutex(t, pool(), "k", redimutex.WithTTL(time.Minute))
	locked := make(chan error, 1)
	c.Move("k", (c.Owner("k")+1)%3, func() {
		err := m.TryLockContext(ctx)
		require.ErrorIs(t, err, redimutex.ErrUnavailable)
		assert.ErrorContains(t, err, "ASK")
		go func() { locked <- m.LockContext(ctx, 0) }()
	})
	require.NoError(t, <-locked)
	require.NoError(t, m.UnlockContext(ctx))
}

func TestClusterWaiterRecoversWhenPrimaryAndHolderDie(t *testing.T) {
	t.Parallel()
	c, pool := startCluster(t)
	ctx := patience(t)
	old := c.Owner("k")
	// A holder that has died is a key that no process renews.
	c.Nodes[old].Do("SET", "k", "its token", "NX", "PX", 3000)
	waiter := locktest.Mutex(t, pool(), "k")
	locked := make(chan error, 1)
	go func() { locked <- waiter.LockContext(ctx, 0) }()

	c.Nodes[old].Kill()
	killed := time.Now()
	require.NoError(t, <-locked)
	t.Logf("recovered in %v", time.Since(killed).Round(time.Millisecond))
	now := c.Nodes[promoted(t, c, "k", old)]
	assert.Equal(t, waiter.Lease().Token(), now.Get("k"))
	c.Agree("k") // otherwise the lock may be released only later, in the background
	require.NoError(t, waiter.UnlockContext(ctx))
	assert.False(t, now.Exists("k"))
}

func TestClusterConfirmedLockSurvivesTheDeathOfThePrimary(t *testing.T) {
	t.Parallel()
	c, pool := startCluster(t)
	ctx := patience(t)
	holder := locktest.Mutex(t, pool(), "k", redimutex.WithTTL(time.Minute), redimutex.WithReplicas(1, time.Second))
	rival := locktest.Mutex(t, pool(), "k", redimutex.WithTTL(time.Minute))
	require.NoError(t, holder.LockContext(ctx, 0))

	old := c.Owner("k")
	c.Nodes[old].Kill()
	redistest.Wait(t, "the rival hears from the new primary who holds the lock", func() bool {
		err := rival.TryLockContext(ctx)
		require.Error(t, err, "the holder has not unlocked")
		return assert.ErrorIs(quiet{}, err, redimutex.ErrLocked)
	})
	promoted(t, c, "k", old)
	err := holder.Lease().Extend(ctx, time.Minute)
	require.ErrorIs(t, err, redimutex.ErrUnavailable, "no replica is left to confirm it")
	c.Nodes[old].Restart() // as a replica of the new primary
	redistest.Wait(t, "the holder extends its lease on the new primary", func() bool {
		err := holder.Lease().Extend(ctx, time.Minute)
		require.NotErrorIs(t, err, redimutex.ErrLost)
		return err == nil
	})
	c.Agree("k")
	require.NoError(t, holder.UnlockContext(ctx))
	require.NoError(t, rival.LockContext(ctx, 0))
	require.NoError(t, rival.UnlockContext(ctx))
}

func TestClusterFencesNeverFallAcrossAFailover(t *testing.T) {
	t.Parallel()
	c, pool := startCluster(t)
	const key = "a{b}c"
	opts := []redimutex.Option{redimutex.WithTTL(5 * time.Second), redimutex.WithFencing(), redimutex.WithReplicas(1, time.Second)}
	crowd := startCrowd(t, locktest.Mutex(t, pool(), key, opts...), locktest.Mutex(t, pool(), key, opts...), locktest.Mutex(t, pool(), key, opts...))
	crowd.more(20)
	old := c.Owner(key)
	c.Nodes[old].Kill()
	promoted(t, c, key, old)
	c.Nodes[old].Restart() // as a replica; without one no lock counts
	crowd.more(20)
	crowd.stop()
}

func TestClusterHungPrimaryIsLeftWhenTheMapIsRefreshed(t *testing.T) {
	t.Parallel()
	c, pool := startCluster(t)
	ctx := patience(t)
	p := pool()
	m := locktest.Mutex(t, p, "k", redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(2*time.Second))
	require.NoError(t, m.LockContext(ctx, 0))
	require.NoError(t, m.UnlockContext(ctx))
	old := c.Owner("k")
	c.Nodes[old].Pause()
	now := promoted(t, c, "k", old)

	// A node that hangs does not say MOVED, so redisc has no reason to ask for the map.
	require.ErrorIs(t, m.TryLockContext(ctx), redimutex.ErrUnavailable)
	require.NoError(t, p.Refresh())
	require.NoError(t, m.LockContext(ctx, 0))
	assert.Equal(t, m.Lease().Token(), c.Nodes[now].Get("k"))
	require.NoError(t, m.UnlockContext(ctx))
	c.Nodes[old].Resume()
}

// A removed node still answers, but hears of no hand-offs any more.
func TestClusterWaiterLeavesANodeThatWasRemoved(t *testing.T) {
	t.Parallel()
	c, pool := startCluster(t)
	const key = "k"
	opts := []redimutex.Option{redimutex.WithTTL(time.Minute), redimutex.WithQueue()}
	holder := locktest.Mutex(t, pool(), key, opts...)
	require.NoError(t, holder.LockContext(patience(t), 0))
	ctx, cancel := context.WithCancel(patience(t))
	var waiters sync.WaitGroup
	defer waiters.Wait()
	defer cancel()
	listening := func(nodes ...*redistest.Server) (n int) {
		for _, s := range nodes {
			n += len(s.Do("PUBSUB", "CHANNELS", "redimutex:*").([]any))
		}
		return n
	}
	removed := (c.Owner(key) + 1) % 3
	for n := 1; listening(c.Nodes[removed]) == 0; n++ {
		waiter := locktest.Mutex(t, pool(), key, opts...)
		waiters.Go(func() { _ = waiter.LockContext(ctx, 0) })
		redistest.Wait(t, "the waiter listens somewhere", func() bool { return listening(c.Nodes...) == n })
	}
	c.Remove(removed)
	redistest.Wait(t, "no waiter listens there", func() bool { return listening(c.Nodes[removed]) == 0 })
	cancel()
	require.NoError(t, holder.UnlockContext(patience(t)))
}
