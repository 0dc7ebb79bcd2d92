package topologies_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.FewAtOnce()
	redistest.Main(m)
}

// patience returns a context with time enough for what takes a few seconds on an idle machine.
func patience(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A crowd takes a lock again and again. It notes the fence of each hold, and whether two members were ever inside at once.
type crowd struct {
	t       testing.TB
	cancel  context.CancelFunc
	members sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	inside int
	clash  bool
	fences []int64 // in the order of the holds
}

// startCrowd starts a goroutine for each Mutex, which takes it again and again until stop is called.
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
	_ = m.UnlockContext(context.Background()) // if this fails, the lock is released in the background, or expires
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

// stop ends the crowd, and checks that never two members were inside at once, and that the fences rose.
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
