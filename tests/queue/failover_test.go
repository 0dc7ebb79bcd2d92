package queue_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// primaryPool returns a pool that checks the role of its server when it dials and when it borrows. If stray returns true, the
// dial leads to the replica all the same.
func primaryPool(t testing.TB, servers []*redistest.Server, stray func() bool) *redis.Pool {
	p := &redis.Pool{
		MaxIdle: 10,
		Dial: func() (redis.Conn, error) {
			if stray() {
				return redis.Dial("tcp", servers[1].Addr())
			}
			for _, s := range servers {
				c, err := redis.Dial("tcp", s.Addr(), redis.DialReadTimeout(slow))
				if err == nil && redistest.CheckRole(c, time.Time{}) == nil {
					return c, nil
				}
				if err == nil {
					c.Close()
				}
			}
			return nil, errors.New("no primary")
		},
		TestOnBorrow: redistest.CheckRole,
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestNoTwoLeasesAreValidAtOnceWhereDiallingSometimesEndsAtTheReplica(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 1)
	var last atomic.Pointer[redimutex.Lease] // of the process that has the lock, or had it last
	var holds, clashes atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var members sync.WaitGroup
	for range 4 {
		m := newMutex(t, primaryPool(t, []*redistest.Server{primary, replicas[0]}, func() bool { return rand.N(2) == 0 }))
		members.Go(func() {
			for m.LockContext(ctx, 0) == nil {
				mine := m.Lease()
				if other := last.Swap(mine); other != nil && redistest.BothValid(other, mine) {
					clashes.Add(1)
				}
				holds.Add(1)
				time.Sleep(time.Millisecond) // so that others have a chance to clash with it
				_ = m.UnlockContext(context.Background())
			}
		})
	}
	for range 3 {
		before := holds.Load()
		redistest.Wait(t, "more holds", func() bool { return holds.Load() > before+100 })
		primary.Do("CLIENT", "KILL", "TYPE", "pubsub") // the waiters subscribe again, some of them to the other server
		replicas[0].Do("CLIENT", "KILL", "TYPE", "pubsub")
	}
	before := holds.Load()
	redistest.Wait(t, "more holds", func() bool { return holds.Load() > before+100 })
	stop()
	members.Wait()
	assert.Zero(t, clashes.Load(), "of %d holds, began while another lease was valid", holds.Load())
}

// A waiter that listens at a replica was not counted as a receiver, so the lock goes to the next waiter. If the first waiter
// heard the message, there would be two holders.
func TestAHandOffIsNotHeardAtAReplica(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 1)
	holder, waiter := newMutex(t, primary.Pool()), newMutex(t, primary.Pool())
	require.NoError(t, holder.LockContext(t.Context(), time.Minute))
	got := startWaiting(t, primary, waiter, 1)
	members := queueOf(t, primary, key)
	channel, _, _ := strings.Cut(members[0], " ")
	c, err := redis.Dial("tcp", replicas[0].Addr(), redis.DialReadTimeout(slow))
	require.NoError(t, err)
	listener := redis.PubSubConn{Conn: c}
	defer listener.Close()
	require.NoError(t, listener.Subscribe(channel))
	require.IsType(t, redis.Subscription{}, listener.Receive())
	unlock(t, holder)
	require.NoError(t, <-got)
	primary.Do("PUBLISH", channel, "replicated")
	message, _ := listener.Receive().(redis.Message)
	assert.Equal(t, "replicated", string(message.Data), "nothing came before this")
	unlock(t, waiter)
}
