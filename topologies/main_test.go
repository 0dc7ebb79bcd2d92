package topologies_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.FewAtOnce()
	redistest.Main(m)
}

// patience is a context for what takes a few seconds on a machine that has time for us.
func patience(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func exists(t testing.TB, s *redistest.Server, key string) bool {
	t.Helper()
	n, err := redis.Int(s.Do("EXISTS", key), nil)
	require.NoError(t, err)
	return n == 1
}

// A crowd takes a lock again and again, and writes down who was inside when, and with which fence.
type crowd struct {
	t       testing.TB
	cancel  context.CancelFunc
	members sync.WaitGroup

	mu     sync.Mutex
	inside int
	clash  bool
	fences []int64 // in the order of the holds
}

// startCrowd lets a goroutine for each Mutex take it until stop is called.
func startCrowd(t testing.TB, mutexes ...*redimutex.Mutex) *crowd {
	ctx, cancel := context.WithCancel(context.Background())
	c := &crowd{t: t, cancel: cancel}
	for _, m := range mutexes {
		c.members.Go(func() {
			for ctx.Err() == nil {
				c.hold(ctx, m)
			}
		})
	}
	t.Cleanup(c.leave)
	return c
}

func (c *crowd) hold(ctx context.Context, m *redimutex.Mutex) {
	if err := m.LockContext(ctx, 0); err != nil {
		return
	}
	c.mu.Lock()
	c.inside++
	c.clash = c.clash || c.inside > 1
	c.fences = append(c.fences, m.Lease().Fence())
	c.mu.Unlock()
	time.Sleep(time.Millisecond) // so that others have a chance to be inside as well
	c.mu.Lock()
	c.inside--
	c.mu.Unlock()
	_ = m.UnlockContext(context.Background()) // what fails here is freed in the background, or by its TTL
}

func (c *crowd) holds() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.fences)
}

// more waits until the lock was taken n more times.
func (c *crowd) more(n int) {
	c.t.Helper()
	target := c.holds() + n
	redistest.Wait(c.t, "more holds", func() bool { return c.holds() >= target })
}

func (c *crowd) leave() {
	c.cancel()
	c.members.Wait()
}

// stop ends the crowd, and checks that no caller was inside beside another caller, and that the fences rose.
func (c *crowd) stop() {
	c.t.Helper()
	c.leave()
	assert.False(c.t, c.clash, "two at once")
	for i := 1; i < len(c.fences); i++ {
		if c.fences[i] <= c.fences[i-1] {
			c.t.Fatalf("fence %d of hold %d is not above %d of the hold before", c.fences[i], i, c.fences[i-1])
		}
	}
}
