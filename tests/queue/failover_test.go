package queue_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// primaryPool returns a pool that checks the role of its server when it dials and when it borrows. stray
// says when dialling ends up with the replica nevertheless.
func primaryPool(t testing.TB, servers []*redistest.Server, stray func() bool) *redis.Pool {
	p := &redis.Pool{
		MaxIdle: 10,
		Dial: func() (redis.Conn, error) {
			if stray() {
				return redis.Dial("tcp", servers[1].Addr())
			}
			for _, s := range servers {
				c, err := redis.Dial("tcp", s.Addr(), redis.DialReadTimeout(slow))
				if err == nil && checkRole(c, time.Time{}) == nil {
					return c, nil
				}
				if err == nil {
					c.Close()
				}
			}
			return nil, errors.New("no primary")
		},
		TestOnBorrow: checkRole,
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func checkRole(c redis.Conn, _ time.Time) error {
	role, err := redis.Values(c.Do("ROLE"))
	if err != nil {
		return err
	}
	if word, _ := redis.String(role[0], nil); word != "master" {
		return errors.New("the server is no primary (any more)")
	}
	return nil
}

// A contest is clients that take the lock again and again, and ask the leases whether two are valid at once.
type contest struct {
	current atomic.Pointer[redimutex.Lease] // of the process that holds it and has not begun to unlock
	holds   atomic.Int64
	clashes atomic.Int64
}

// startContest lets each Mutex be taken until the end of the test, or until stop is called.
func startContest(t testing.TB, mutexes ...*redimutex.Mutex) (c *contest, stop func()) {
	c = new(contest)
	ctx, cancel := context.WithCancel(context.Background())
	var members sync.WaitGroup
	for _, m := range mutexes {
		members.Go(func() {
			for m.LockContext(ctx, 0) == nil {
				c.hold(m)
			}
		})
	}
	stop = func() {
		cancel()
		members.Wait()
	}
	t.Cleanup(stop)
	return c, stop
}

func (c *contest) hold(m *redimutex.Mutex) {
	mine := m.Lease()
	other := c.current.Swap(mine)
	c.holds.Add(1)
	// The other was valid when it was asked, and ours, which is valid after that, was so as well.
	if other != nil && other.Err() == nil && mine.Err() == nil {
		c.clashes.Add(1)
	}
	time.Sleep(time.Millisecond) // so that others have a chance to clash with it
	c.current.CompareAndSwap(mine, nil)
	_ = m.UnlockContext(context.Background()) // what was lost tells so, which is no clash
}

// more waits until there were n more holds.
func (c *contest) more(t testing.TB, n int64) {
	t.Helper()
	target := c.holds.Load() + n
	redistest.Wait(t, "more holds", func() bool { return c.holds.Load() >= target })
}

func TestNoTwoLeasesAreValidAtOnceWhereDiallingSometimesEndsAtTheReplica(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 1)
	var mutexes []*redimutex.Mutex
	for range 4 {
		pool := primaryPool(t, []*redistest.Server{primary, replicas[0]}, func() bool { return rand.N(2) == 0 })
		mutexes = append(mutexes, newMutex(t, pool))
	}
	c, stop := startContest(t, mutexes...)
	for range 3 {
		c.more(t, 100)
		primary.Do("CLIENT", "KILL", "TYPE", "pubsub") // they listen again, and some at the other server
		replicas[0].Do("CLIENT", "KILL", "TYPE", "pubsub")
	}
	c.more(t, 100)
	stop()
	assert.Zero(t, c.clashes.Load(), "of %d holds, began while another lease was valid", c.holds.Load())
}
