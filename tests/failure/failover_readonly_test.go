package failure_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A pair is a primary with a replica, and a switchboard that has the address of the primary.
type pair struct {
	*switchboard
	primary, replica *redistest.Server
}

func startPair(t *testing.T) *pair {
	t.Helper()
	primary, replicas := redistest.Replicas(t, 1)
	return &pair{at(primary.Addr()), primary, replicas[0]}
}

// failover is a planned failover. From now on the switchboard has the address of the replica.
func (p *pair) failover() {
	p.to(p.replica.Addr())
	p.primary.FailoverTo(p.replica)
}

// following returns pools that follow a primary, but would keep a connection to a demoted one.
func following(t *testing.T, board *switchboard) map[string]redimutex.Pool {
	lately := board.pool(t)
	lately.TestOnBorrow = func(c redis.Conn, used time.Time) error {
		if time.Since(used) < time.Second {
			return nil
		}
		return redistest.CheckRole(c, used)
	}
	return map[string]redimutex.Pool{
		"without a role check":                  board.pool(t),
		"role checked after a second idle":      lately,
		"without a role check, and multiplexed": board.pool(t),
	}
}

// The demoted server lives on, so nothing breaks the connections to it. And the polling process uses them all the time, so
// they are never idle for long.
func TestAPlannedFailoverIsOverWithTheNextDial(t *testing.T) {
	t.Parallel()
	for how, opts := range map[string][]redimutex.Option{"polling": nil, "queue": {redimutex.WithQueue()}, "fencing": {redimutex.WithFencing()}} {
		for _, name := range []string{"without a role check", "role checked after a second idle", "without a role check, and multiplexed"} {
			if name != "without a role check" && how != "polling" {
				continue // the way of waiting makes no difference to the pool
			}
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				p := startPair(t)
				p.primary.Do("SET", "k", "another holder", "PX", time.Hour.Milliseconds())
				var tries atomic.Int64
				opts := slices.Clone(opts) // other subtests use the same slice
				if strings.HasSuffix(name, "multiplexed") {
					opts = append(opts, redimutex.WithMultiplexing(1))
				}
				m := newClient(t, following(t, p.switchboard)[name], append(opts, redimutex.WithTTL(20*time.Second),
					redimutex.WithTrace(&redimutex.Trace{Attempt: func(redimutex.Event) { tries.Add(1) }}))...).Mutex("k")
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				got := make(chan error, 1)
				go func() { got <- m.LockContext(ctx, 0) }()
				redistest.Wait(t, "the waiter", func() bool { return tries.Load() > 1 })
				p.failover()
				p.replica.Do("DEL", "k")
				// A few tries may meet the old primary, but not two hundred.
				patience := time.AfterFunc(10*time.Second, func() { cancel(errors.New("ten seconds, and no lock")) })
				defer patience.Stop()
				require.NoError(t, <-got)
				assert.Equal(t, m.Lease().Token(), p.replica.Get("k"))
				require.NoError(t, m.UnlockContext(t.Context()))
			})
		}
	}
}

func TestReleasesAndExtensionsReachTheNewPrimary(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	client := newClient(t, p.pool(t), redimutex.WithTTL(10*time.Second))
	m := client.Mutex("k")
	require.NoError(t, m.LockContext(t.Context(), 0))
	p.failover()
	redistest.Wait(t, "an extension by the new primary", func() bool {
		return m.Lease().Extend(t.Context(), time.Minute) == nil || m.Lease().Err() != nil
	})
	require.NoError(t, m.Lease().Err())
	m.UnlockContext(t.Context()) //nolint:errcheck // the lock goes, now or in the background
	redistest.Wait(t, "the release", func() bool { return !p.replica.Exists("k") })
}

// The listener of the queue has a connection of its own, to which no operation writes.
func TestTheListenerFollowsAPlannedFailover(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	// The try that meets the failover must not time out: from its answer the client learns of the failover.
	opts := []redimutex.Option{redimutex.WithQueue(), redimutex.WithTTL(20 * time.Second), redimutex.WithNodeTimeout(9 * time.Second)}
	waiting := newClient(t, p.pool(t), opts...)
	p.primary.Do("SET", "k", "another holder")
	wait(t, waiting)
	redistest.Wait(t, "the listener", func() bool { return p.primary.Subscribers() == 1 })
	p.failover()
	redistest.Wait(t, "the listener on the new primary", func() bool { return p.replica.Subscribers() == 1 })
	redistest.Wait(t, "no one listens to the replica", func() bool { return p.primary.Subscribers() == 0 })
}

// Most connections of the pool lead to the old primary, where the listener still counts. If many wait, each looks only once a
// second.
func TestTheListenerFollowsAPlannedFailoverWithManyIdleConnections(t *testing.T) {
	t.Parallel()
	const many = 200
	p := startPair(t)
	pool := p.pool(t)
	pool.MaxIdle = many
	idle(t, pool, many)
	opts := []redimutex.Option{redimutex.WithQueue(), redimutex.WithTTL(20 * time.Second), redimutex.WithNodeTimeout(9 * time.Second)}
	p.primary.Do("SET", "k", "another holder")
	for i := range 2 * many {
		p.primary.Do("ZADD", "redimutex:queue:{k}", time.Now().UnixMicro(), fmt.Sprintf("redimutex:other m 0 100 token%d", i))
	}
	client := newClient(t, pool, opts...)
	wait(t, client)
	redistest.Wait(t, "the listener", func() bool { return p.primary.Subscribers() == 1 })
	// A waiter for another lock comes last, and then leaves.
	p.primary.Do("SET", "other", "another holder")
	require.ErrorIs(t, client.Mutex("other").LockContext(t.Context(), 10*time.Millisecond), context.DeadlineExceeded)
	p.failover()
	redistest.Wait(t, "the listener on the new primary", func() bool { return p.replica.Subscribers() == 1 })
	assert.Greater(t, pool.IdleCount(), many/2)
}

// A waiter with two places in the queue is called once in vain, which costs the others a hand-off.
func TestAPlannedFailoverLeavesEachWaiterOnePlaceInTheQueue(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	pool := p.pool(t)
	idle(t, pool, 5)
	var tries atomic.Int64
	waiting := newClient(t, pool, redimutex.WithQueue(), redimutex.WithTTL(20*time.Second), redimutex.WithNodeTimeout(9*time.Second),
		redimutex.WithTrace(&redimutex.Trace{Attempt: func(redimutex.Event) { tries.Add(1) }}))
	p.primary.Do("SET", "k", "another holder")
	wait(t, waiting)
	locktest.WaitQueued(t, p.primary, "k", 1)
	p.failover()
	redistest.Wait(t, "the listener on the new primary", func() bool { return p.replica.Subscribers() == 1 })
	looked := tries.Load()
	redistest.Wait(t, "some looks there", func() bool { return tries.Load() > looked+3 })
	locktest.WaitQueued(t, p.replica, "k", 1)
}

// Many connections of the pool lead to the old primary.
func TestTheFirstOperationsAfterAPlannedFailoverReachTheNewPrimary(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	pool := p.pool(t)
	pool.MaxIdle = 20
	client := newClient(t, pool, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second))
	var leases []*redimutex.Lease
	for i := range 4 {
		l, err := client.Mutex(strconv.Itoa(i)).Acquire(t.Context())
		require.NoError(t, err)
		leases = append(leases, l)
	}
	idle(t, pool, 20)
	p.failover()
	require.NoError(t, client.Mutex("k").TryLockContext(t.Context()))
	require.NoError(t, client.Mutex("f", redimutex.WithFencing()).TryLockContext(t.Context()))
	require.NoError(t, leases[0].Extend(t.Context(), time.Minute))
	require.NoError(t, leases[1].Release(t.Context()))
	_, err := leases[2].HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	assert.Positive(t, pool.IdleCount(), "to the old primary")
}

// The shared connections take the place of the pool.
func TestTheFirstOperationsOverSharedConnectionsReachTheNewPrimary(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	client := newClient(t, p.pool(t), redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second), redimutex.WithMultiplexing(2))
	l, err := client.Mutex("l").Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, client.Mutex("other").TryLockContext(t.Context())) // over the other connection
	since := time.Now().Add(2 * time.Second)
	redistest.Wait(t, "connections that have lived for a while", func() bool { return time.Now().After(since) })
	p.failover()
	require.NoError(t, l.Extend(t.Context(), time.Minute))
	require.NoError(t, client.Mutex("k").TryLockContext(t.Context()))
	require.NoError(t, l.Release(t.Context()))
}

// Leases that are extended together go on together. They count only once the replicas of the new primary have them.
func TestLeasesWithReplicasFollowAPlannedFailoverTogether(t *testing.T) {
	t.Parallel()
	const many = 100
	p := startPair(t)
	pool := p.pool(t)
	pool.MaxIdle = many
	var over atomic.Bool
	var renewed atomic.Int64
	client := newClient(t, pool, redimutex.WithReplicas(1, 3*time.Second), redimutex.WithTTL(9*time.Second),
		redimutex.WithNodeTimeout(3*time.Second), redimutex.WithTrace(&redimutex.Trace{Renewed: func(e redimutex.Event) {
			if over.Load() && e.Err == nil {
				renewed.Add(1)
			}
		}}))
	for i := range 3 {
		require.NoError(t, client.Mutex(strconv.Itoa(i)).LockContext(t.Context(), 0))
	}
	idle(t, pool, many)
	p.failover()
	over.Store(true)
	redistest.Wait(t, "renewals at the new primary", func() bool { return renewed.Load() >= 3 })
	assert.Greater(t, pool.IdleCount(), many/2)
}

// A demoted primary that can't follow its successor yet refuses all but a few commands, if it is configured so.
func TestADemotedServerThatServesNoStaleDataIsLeftLikeAnyOther(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	pool := p.pool(t)
	pool.MaxIdle = 20
	client := newClient(t, pool, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second))
	l, err := client.Mutex("l").Acquire(t.Context())
	require.NoError(t, err)
	idle(t, pool, 20)
	redistest.Wait(t, "the replica has the lock", func() bool { return p.replica.Exists("l") })
	p.replica.Promote()
	p.primary.Do("CONFIG", "SET", "replica-serve-stale-data", "no")
	p.primary.Do("REPLICAOF", "127.0.0.1", "1")
	p.to(p.replica.Addr())
	require.NoError(t, client.Mutex("k").TryLockContext(t.Context()))
	require.NoError(t, l.Extend(t.Context(), time.Minute))
	require.NoError(t, l.Release(t.Context()))
	assert.Positive(t, pool.IdleCount(), "to the old primary")
}

// Releases that no caller waits for are repeated with longer and longer pauses, even if the server answers.
func TestABackgroundReleaseDoesNotKnockAllTheTimeAtAReplica(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 1)
	var dials atomic.Int64
	pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) {
		dials.Add(1)
		return redis.Dial("tcp", primary.Addr())
	}}
	client := newClient(t, pool, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second))
	l, err := client.Mutex("k").Acquire(t.Context())
	require.NoError(t, err)
	primary.FailoverTo(replicas[0])
	require.ErrorIs(t, l.Release(t.Context()), redimutex.ErrUnavailable)
	before, began := dials.Load(), time.Now()
	redistest.Wait(t, "some tries", func() bool { return dials.Load() > before+10 })
	assert.Greater(t, time.Since(began), 200*time.Millisecond, "four pauses, each twice the one before")
	primary.Promote()
	redistest.Wait(t, "the release", func() bool { return !primary.Exists("k") })
}

// No caller ever meets READONLY if the pool checks the role of its servers, or if the tries that met the failover time out.
func TestTheListenerFollowsAFailoverThatNoTryHasMet(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	pool := p.pool(t)
	var gate sync.RWMutex
	var blocked atomic.Int64
	pass := func() {
		blocked.Add(1)
		defer blocked.Add(-1)
		gate.RLock()
		defer gate.RUnlock()
	}
	dial := pool.Dial
	pool.Dial = func() (redis.Conn, error) {
		pass()
		return dial()
	}
	pool.TestOnBorrow = func(redis.Conn, time.Time) error {
		if pass(); *p.addr.Load() != p.primary.Addr() {
			return errors.New("not the primary")
		}
		return nil
	}
	waiting := newClient(t, pool, redimutex.WithQueue(), redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(25*time.Second))
	p.primary.Do("SET", "k", "another holder")
	wait(t, waiting)
	redistest.Wait(t, "the listener", func() bool { return p.primary.Subscribers() == 1 })
	gate.Lock()
	redistest.Wait(t, "the next try, and none before it is under way", func() bool {
		n := blocked.Load()
		return n > 0 && int(n) == pool.ActiveCount()-pool.IdleCount()
	})
	p.failover()
	gate.Unlock()
	redistest.Wait(t, "the listener on the new primary", func() bool { return p.replica.Subscribers() == 1 })
	redistest.Wait(t, "no one listens to the replica", func() bool { return p.primary.Subscribers() == 0 })
}

// wait starts a goroutine of client that waits for the lock until the end of the test.
func wait(t *testing.T, client *redimutex.Client) {
	var waiting sync.WaitGroup
	waiting.Go(func() { client.Mutex("k").LockContext(t.Context(), 0) }) //nolint:errcheck // it never gets it
	t.Cleanup(waiting.Wait)
}
