package failure_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A book records which leases of one key are held. It fails the test if two are valid at once.
type book struct {
	t     testing.TB
	mu    sync.Mutex
	held  map[*redimutex.Lease]bool
	fence int64
	holds atomic.Int64
}

func newBook(t testing.TB) *book { return &book{t: t, held: make(map[*redimutex.Lease]bool)} }

func (b *book) enter(l *redimutex.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holds.Add(1)
	for other := range b.held {
		if redistest.BothValid(other, l) {
			b.t.Errorf("two leases are valid at once: %s and %s", other.Token(), l.Token())
		}
	}
	if f := l.Fence(); f != 0 && l.Err() == nil {
		if f <= b.fence {
			b.t.Errorf("the fence %d comes after %d", f, b.fence)
		}
		b.fence = max(b.fence, f)
	}
	b.held[l] = true
}

func (b *book) leave(l *redimutex.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, l)
}

// nothingLeft waits until the servers have only fence counters. A key that no caller releases would stay for longer.
func nothingLeft(t testing.TB, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		redistest.Wait(t, "nothing is left", func() bool {
			return !slices.ContainsFunc(s.Keys(), func(k string) bool { return !strings.HasPrefix(k, "redimutex:fence:") })
		})
	}
}

type load struct {
	clients []*redimutex.Client
	key     string
	opts    [][]redimutex.Option // each goroutine uses one of these
	each    int                  // goroutines for each client
	last    time.Duration
	cancel  time.Duration // longest ctx; 0: none
	extend  bool
	hold    time.Duration
}

// run makes all goroutines lock and unlock. It logs the longest wait of a goroutine whose ctx has no end.
func (l *load) run(t testing.TB, b *book) {
	end := time.Now().Add(l.last)
	var all sync.WaitGroup
	var worst atomic.Int64
	for _, c := range l.clients {
		for i := range l.each {
			m := c.Mutex(l.key, l.opts[i%len(l.opts)]...)
			all.Go(func() {
				for time.Now().Before(end) {
					l.once(t, b, m, &worst)
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(l.last + 60*time.Second):
		t.Fatal("somebody waits for ever")
	}
	t.Logf("%d holds, longest wait %v", b.holds.Load(), time.Duration(worst.Load()))
}

func (l *load) once(t testing.TB, b *book, m *redimutex.Mutex, worst *atomic.Int64) {
	ctx := context.Background()
	if l.cancel > 0 && rand.N(3) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		timer := time.AfterFunc(rand.N(l.cancel), cancel)
		defer timer.Stop()
		defer cancel()
	}
	began := time.Now()
	var err error
	if rand.N(5) == 0 {
		err = m.TryLockContext(ctx)
	} else {
		err = m.LockContext(ctx, 0)
	}
	if d := int64(time.Since(began)); d > worst.Load() {
		worst.Store(d)
	}
	if err != nil {
		if !errors.Is(err, context.Canceled) && !errors.Is(err, redimutex.ErrLocked) && !errors.Is(err, redimutex.ErrUnavailable) && !errors.Is(err, redimutex.ErrClosed) {
			t.Error(err)
		}
		return
	}
	lease := m.Lease()
	b.enter(lease)
	if l.hold > 0 {
		time.Sleep(rand.N(l.hold))
	}
	var ext sync.WaitGroup
	if l.extend && rand.N(4) == 0 {
		ext.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), rand.N(3*time.Millisecond))
			defer cancel()
			_ = lease.Extend(ctx, 200*time.Millisecond+rand.N(3*time.Second))
		})
		if rand.N(2) == 0 {
			ext.Wait()
		}
	}
	b.leave(lease)
	uctx := context.Background()
	if l.cancel > 0 && rand.N(4) == 0 {
		var cancel context.CancelFunc
		uctx, cancel = context.WithTimeout(uctx, rand.N(time.Millisecond))
		defer cancel()
	}
	if err := m.UnlockContext(uctx); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, redimutex.ErrUnavailable) {
		t.Log("unlock:", err)
	}
	ext.Wait()
}

func clients(t testing.TB, n int, pools func() []redimutex.Pool, opts ...redimutex.Option) (all []*redimutex.Client) {
	for range n {
		c := redimutex.NewClient(pools(), opts...)
		t.Cleanup(func() { c.Close() })
		all = append(all, c)
	}
	return all
}
