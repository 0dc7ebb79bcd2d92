package planned

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

const (
	ttl       = 2 * time.Second
	confirm   = 500 * time.Millisecond // the timeout of WithReplicas
	reuse     = ttl / 4
	rivals    = 3
	thinking  = 20 * time.Millisecond // before a rival comes again
	patience  = 2 * time.Minute       // for a busy machine
	keyFormat = "{k}:%d"              // all keys are in one slot
)

// A way is how the lock is used.
type way struct {
	name   string
	fenced bool
	opts   []redimutex.Option
}

func ways() []way {
	queue, fencing, reusing := redimutex.WithQueue(), redimutex.WithFencing(), redimutex.WithLeaseReuse(reuse)
	return []way{
		{"queue", false, []redimutex.Option{queue}},
		{"fences", true, []redimutex.Option{fencing}},
		{"queue, fences", true, []redimutex.Option{queue, fencing}},
		{"reuse", false, []redimutex.Option{reusing}},
		{"queue, reuse", false, []redimutex.Option{queue, reusing}},
	}
}

// A contest is rivals, each in a process of its own as it were, that take one lock again and again over pools of one kind.
type contest struct {
	key      string
	pool     string
	way      way
	replicas int
	work     time.Duration // under the lock, so that others have a chance to clash with it

	mu      sync.Mutex
	current *redimutex.Lease // of the process that has the lock, and has not begun to unlock
	last    time.Time        // when the last hold began
	gap     time.Duration    // the longest time in which no hold began
	high    int64            // the highest fence
	holds   int
	clashes int // holds that began while another lease was valid
	falls   int // fences that were not higher than all before
	err     error
}

func (c *contest) String() string {
	return fmt.Sprintf("%s, over the pool %s, confirmed by %d replicas", c.way.name, c.pool, c.replicas)
}

// start lets the rivals in until stop is called.
func (c *contest) start(ctx context.Context, t testing.TB, pool func(testing.TB) redimutex.Pool) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var team sync.WaitGroup
	var clients []*redimutex.Client
	opts := append([]redimutex.Option{redimutex.WithTTL(ttl), redimutex.WithLogger(slog.New(slog.DiscardHandler))}, c.way.opts...)
	if c.replicas > 0 {
		opts = append(opts, redimutex.WithReplicas(c.replicas, confirm))
	}
	for range rivals {
		client := redimutex.NewClient([]redimutex.Pool{pool(t)}, opts...)
		clients = append(clients, client)
		m := client.Mutex(c.key)
		team.Go(func() {
			for ctx.Err() == nil {
				c.hold(ctx, m)
				sleep(ctx, thinking)
			}
		})
	}
	return sync.OnceFunc(func() {
		cancel()
		team.Wait()
		for _, client := range clients {
			client.Close()
		}
	})
}

func (c *contest) hold(ctx context.Context, m *redimutex.Mutex) {
	if err := m.LockContext(ctx, 0); err != nil {
		if ctx.Err() == nil {
			c.mu.Lock()
			c.err = err
			c.mu.Unlock()
		}
		return
	}
	lease := m.Lease()
	c.begin(lease)
	sleep(ctx, c.work)
	c.mu.Lock()
	if c.current == lease {
		c.current = nil
	}
	c.mu.Unlock()
	_ = m.UnlockContext(context.Background()) // what was lost tells so, which is no clash
}

// begin takes in a hold. The process that has a valid lease has the newest, so its fence has to be the highest.
func (c *contest) begin(lease *redimutex.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !c.last.IsZero() {
		c.gap = max(c.gap, now.Sub(c.last))
	}
	c.last = now
	c.holds++
	if c.current != nil && redistest.BothValid(c.current, lease) {
		c.clashes++
	}
	c.current = lease
	if fence := lease.Fence(); c.way.fenced && lease.Err() == nil {
		if fence <= c.high {
			c.falls++
		}
		c.high = max(c.high, fence)
	}
}

func (c *contest) count() (holds int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holds, c.err
}

// more waits until each of the contests has had n more holds.
func more(ctx context.Context, t testing.TB, contests []*contest, n int) {
	t.Helper()
	targets := make([]int, len(contests)) // all at once, so that one that is slow costs the others no time
	for i, c := range contests {
		holds, _ := c.count()
		targets[i] = holds + n
	}
	for i, c := range contests {
		end := time.Now().Add(patience)
		for now, err := c.count(); now < targets[i] && ctx.Err() == nil; now, err = c.count() {
			if err != nil {
				t.Fatalf("%v: %v", c, err)
			}
			if time.Now().After(end) {
				t.Fatalf("%v: nobody gets the lock any more", c)
			}
			sleep(ctx, time.Millisecond)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
