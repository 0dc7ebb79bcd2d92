package topologies_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/topologies"
)

// startSentinel returns the servers, and a function that makes pools for them, one for each process
// that the test plays.
func startSentinel(t testing.TB) (*redistest.Sentinel, func() *redis.Pool) {
	t.Helper()
	g := redistest.StartSentinel(t)
	return g, func() *redis.Pool {
		p := topologies.SentinelPool(g.Addrs(), g.Name)
		t.Cleanup(func() { p.Close() })
		return p
	}
}

// failover waits until another server than old is the primary.
func failover(t testing.TB, g *redistest.Sentinel, old *redistest.Server) *redistest.Server {
	t.Helper()
	var now *redistest.Server
	redistest.Wait(t, "a replica is the primary", func() bool {
		now = g.Primary()
		return now != nil && now != old
	})
	return now
}

func TestSentinelConfirmedLockSurvivesTheDeathOfThePrimary(t *testing.T) {
	t.Parallel()
	g, pool := startSentinel(t)
	ctx := patience(t)
	opts := []redimutex.Option{redimutex.WithTTL(time.Minute), redimutex.WithReplicas(1, time.Second)}
	holder, rival := locktest.Mutex(t, pool(), "k", opts...), locktest.Mutex(t, pool(), "k", opts...)
	require.NoError(t, holder.LockContext(ctx, 0))
	before := holder.Lease().Until()

	g.Primary().Kill()
	redistest.Wait(t, "the rival hears from the new primary who holds the lock", func() bool {
		err := rival.TryLockContext(ctx)
		require.Error(t, err, "the holder has not unlocked")
		return assert.ErrorIs(quiet{}, err, redimutex.ErrLocked)
	})
	redistest.Wait(t, "the holder extends its lease on the new primary", func() bool {
		err := holder.Lease().Extend(ctx, time.Minute)
		require.NotErrorIs(t, err, redimutex.ErrLost)
		return err == nil
	})
	assert.True(t, holder.Lease().Until().After(before))
	require.NoError(t, holder.UnlockContext(ctx))
	require.NoError(t, rival.LockContext(ctx, 0))
	require.NoError(t, rival.UnlockContext(ctx))
}

func TestSentinelWaiterRecoversWhenPrimaryAndHolderDie(t *testing.T) {
	t.Parallel()
	g, pool := startSentinel(t)
	ctx := patience(t)
	primary := g.Primary()
	// A holder that has died is a key that no process renews.
	primary.Do("SET", "k", "its token", "NX", "PX", 3000)
	waiter := locktest.Mutex(t, pool(), "k")
	locked := make(chan error, 1)
	go func() { locked <- waiter.LockContext(ctx, 0) }()

	primary.Kill()
	killed := time.Now()
	require.NoError(t, <-locked)
	t.Logf("recovered in %v", time.Since(killed).Round(time.Millisecond))
	now := failover(t, g, primary)
	assert.Equal(t, waiter.Lease().Token(), now.Get("k"))
	require.NoError(t, waiter.UnlockContext(ctx))
	assert.False(t, now.Exists("k"))
}

func TestSentinelFencesNeverFallAcrossAFailover(t *testing.T) {
	t.Parallel()
	g, pool := startSentinel(t)
	opts := []redimutex.Option{redimutex.WithTTL(5 * time.Second), redimutex.WithFencing(), redimutex.WithReplicas(1, time.Second)}
	crowd := startCrowd(t, locktest.Mutex(t, pool(), "k", opts...), locktest.Mutex(t, pool(), "k", opts...), locktest.Mutex(t, pool(), "k", opts...))
	crowd.more(20)
	primary := g.Primary()
	primary.Kill()
	failover(t, g, primary)
	crowd.more(20)
	crowd.stop()
}

func TestSentinelWaiterRecoversWhenThePrimaryHangs(t *testing.T) {
	t.Parallel()
	g, pool := startSentinel(t)
	ctx := patience(t)
	primary := g.Primary()
	m := locktest.Mutex(t, pool(), "k")
	require.NoError(t, m.LockContext(ctx, 0)) // the pool has a connection to the primary now
	require.NoError(t, m.UnlockContext(ctx))

	primary.Pause()
	require.NoError(t, m.LockContext(ctx, 0))
	now := failover(t, g, primary)
	assert.Equal(t, m.Lease().Token(), now.Get("k"))
	require.NoError(t, m.UnlockContext(ctx))

	primary.Resume()
	redistest.Wait(t, "the old primary follows the new one", func() bool { return primary.Role() == "slave" })
	require.NoError(t, m.LockContext(ctx, 0))
	assert.Equal(t, m.Lease().Token(), now.Get("k"))
	require.NoError(t, m.UnlockContext(ctx))
}

func TestSentinelPoolHandsOutNoConnectionToAReplica(t *testing.T) {
	t.Parallel()
	g, pool := startSentinel(t)
	p := pool()
	c, err := p.GetContext(context.Background())
	require.NoError(t, err)
	c.Close()
	require.Equal(t, 1, p.IdleCount())

	primary := g.Primary()
	host, port, _ := net.SplitHostPort(g.Servers[1].Addr())
	primary.Do("REPLICAOF", host, port) // the Sentinels don't know of this
	_, err = p.GetContext(context.Background())
	require.ErrorContains(t, err, "no primary")
	assert.Zero(t, p.IdleCount(), "the one that was idle was tested as well, and closed")
}

// quiet lets a condition use the checks of assert, without failing the test.
type quiet struct{}

func (quiet) Errorf(string, ...any) {}
