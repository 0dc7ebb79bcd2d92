package failure_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// confirmed returns options with which a lock needs its replica, but does not wait for it for long.
func confirmed() []redimutex.Option {
	return []redimutex.Option{
		redimutex.WithTTL(30 * time.Second), redimutex.WithNodeTimeout(5 * time.Second), redimutex.WithReplicas(1, 2*time.Second),
		redimutex.WithPollInterval(20 * time.Millisecond),
	}
}

// kinds are the options whose locks have scripts of their own.
var kinds = map[string][]redimutex.Option{
	"plain":   nil,
	"fencing": {redimutex.WithFencing()},
	"queue":   {redimutex.WithQueue()},
}

// demoteAtWait demotes the primary once, between the command that takes the lock and its WAIT. The primary then answers "ERR
// WAIT cannot be used with replica instances".
func demoteAtWait(front *redistest.Front, primary *redistest.Server, demote func()) (happened *atomic.Bool) {
	happened = new(atomic.Bool)
	var once sync.Once
	front.On(func(command []string) redistest.Fate {
		if strings.EqualFold(command[0], "WAIT") {
			once.Do(func() {
				demote()
				happened.Store(primary.Role() == "slave")
			})
		}
		return redistest.Fate{}
	})
	return happened
}

func TestATryWhosePrimaryIsDemotedBeforeItsWaitIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, opts := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, replicas := redistest.Replicas(t, 1)
			front := redistest.NewFront(t, primary)
			board := at(front.Addr())
			m := newClient(t, board.pool(t), append(confirmed(), opts...)...).Mutex("k")
			happened := demoteAtWait(front, primary, func() { primary.ReplicaOf(replicas[0]) })
			err := m.TryLockContext(t.Context())
			require.True(t, happened.Load(), "the primary was not demoted in time, so nothing was shown")
			assert.ErrorIs(t, err, redimutex.ErrUnavailable)
			assert.Nil(t, m.Lease())
		})
	}
}

// Goroutines lock and unlock while primary and replica change places again and again.
func TestLockSurvivesManyFailovers(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 1)
	servers := [2]*redistest.Server{primary, replicas[0]}
	board := at(primary.Addr())
	client := newClient(t, board.pool(t), redimutex.WithTTL(10*time.Second), redimutex.WithNodeTimeout(time.Second),
		redimutex.WithReplicas(1, time.Second), redimutex.WithPollInterval(10*time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var permanent atomic.Pointer[error] // an error at which Lock would panic
	var locked atomic.Int64
	var team sync.WaitGroup
	for i := range 8 {
		m := client.Mutex(string(rune('a' + i)))
		team.Go(func() {
			for ctx.Err() == nil {
				err := m.LockContext(ctx, 0)
				if err == nil {
					locked.Add(1)
					m.UnlockContext(context.Background()) //nolint:errcheck // it may be lost
					continue
				}
				if ctx.Err() == nil {
					permanent.CompareAndSwap(nil, &err)
					cancel()
				}
			}
		})
	}
	for i := range 2 {
		old, next := servers[i%2], servers[(i+1)%2]
		before := locked.Load()
		redistest.Wait(t, "holds between the failovers", func() bool { return locked.Load() >= before+20 || ctx.Err() != nil })
		if ctx.Err() != nil {
			break
		}
		next.Promote()
		old.ReplicaOf(next)
		board.to(next.Addr())
	}
	cancel()
	team.Wait()
	if err := permanent.Load(); err != nil {
		t.Errorf("LockContext gave up, and Lock would have panicked: %v", *err)
	}
}

// A server that was made a replica answers from old data until it is in sync. It knows nothing of a lock that the new primary
// has given.
func TestADemotedServerIsNotBelievedThatALockIsLost(t *testing.T) {
	t.Parallel()
	for name, opts := range kinds {
		for _, there := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, another lock is there: %v", name, there), func(t *testing.T) {
				t.Parallel()
				old, next, nowhere := redistest.Start(t), redistest.Start(t), redistest.Start(t)
				if there {
					old.Do("SET", "k", "somebody else's")
				}
				nowhere.Kill()
				old.ReplicaOf(nowhere)
				board := at(next.Addr())
				pool := board.pool(t)
				pool.MaxIdle = 0 // every operation dials
				m := newClient(t, pool, append(opts, redimutex.WithTTL(30*time.Second), redimutex.WithNodeTimeout(5*time.Second))...).Mutex("k")
				require.NoError(t, m.LockContext(t.Context(), 0))
				board.to(old.Addr())
				err := m.Lease().Extend(t.Context(), time.Minute)
				require.ErrorIs(t, err, redimutex.ErrUnavailable)
				require.NoError(t, m.Lease().Err())
				require.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrUnavailable)
				board.to(next.Addr())
				redistest.Wait(t, "the release at the new primary", func() bool { return !next.Exists("k") })
			})
		}
	}
}

// Nor is it believed that the lock is held: otherwise no caller would look for the new primary while the old one has the lock.
// Before Redis 7, a replica also shows expired keys to scripts.
func TestADemotedServerIsNotBelievedThatALockIsHeld(t *testing.T) {
	t.Parallel()
	for name, opts := range kinds {
		for _, expired := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, expired: %v", name, expired), func(t *testing.T) {
				t.Parallel()
				old, nowhere := redistest.Start(t), redistest.Start(t)
				old.Do("SET", "k", "somebody else's", "PX", 300_000)
				nowhere.Kill()
				if expired {
					old.Do("PEXPIRE", "k", 300)
				}
				old.ReplicaOf(nowhere)
				if expired {
					time.Sleep(400 * time.Millisecond) // nothing reports when a replica takes a key for expired
				}
				m := newClient(t, old.Pool(), append(opts, redimutex.WithTTL(30*time.Second), redimutex.WithNodeTimeout(5*time.Second))...).Mutex("k")
				err := m.TryLockContext(t.Context())
				require.ErrorIs(t, err, redimutex.ErrUnavailable)
				require.NotErrorIs(t, err, redimutex.ErrLocked)
			})
		}
	}
}
