package lease_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// halted returns a Trace that stops a call which begins to wait, until it is told to go on.
func halted() (trace *redimutex.Trace, waits <-chan struct{}, goOn func()) {
	in, out := make(chan struct{}), make(chan struct{})
	return &redimutex.Trace{Waiting: func(redimutex.Event) { close(in); <-out }}, in, func() { close(out) }
}

// The time of a parked grant may end just while one who gives up has the turn, and so no caller can give the
// grant back. The key would be renewed for ever.
func TestAParkedGrantIsGivenBackByTheWaiterWhoGivesUp(t *testing.T) {
	t.Parallel()
	const reuse = 200 * time.Millisecond
	s := redistest.Start(t)
	c := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithLeaseReuse(reuse))
	trace, waits, goOn := halted()
	c.Observe(trace)
	holder := c.Mutex("k")
	holder.Lock()
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() { gaveUp <- c.Mutex("k").LockContext(ctx, 0) }()
	<-waits
	holder.Unlock() // the turn is the waiter's
	cancel()
	over := time.NewTimer(2 * reuse)
	<-over.C
	goOn()
	require.ErrorIs(t, <-gaveUp, context.Canceled)
	redistest.Wait(t, "the key is gone", func() bool { return len(s.Keys()) == 0 })
	assert.Empty(t, c.Locks())
}

func TestAGrantParkedForAWaiterWhoGivesUpEndsWithClose(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithLeaseReuse(long), redimutex.WithTTL(3*long))
	trace, waits, goOn := halted()
	c.Observe(trace)
	holder := c.Mutex("k")
	holder.Lock()
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() { gaveUp <- c.Mutex("k").LockContext(ctx, 0) }()
	<-waits
	holder.Unlock() // the turn is the waiter's
	cancel()
	require.NoError(t, c.Close())
	goOn()
	require.ErrorIs(t, <-gaveUp, context.Canceled)
	assert.Empty(t, s.Keys())
}

// Close has looked for parked grants already, and has not ended the holds yet.
func TestAHoldThatIsUnlockedDuringCloseIsNotKept(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithLeaseReuse(long), redimutex.WithTTL(3*long))
	held := map[string]*redimutex.Mutex{"a": c.Mutex("a"), "b": c.Mutex("b")}
	for _, m := range held {
		m.Lock()
	}
	var first sync.Once
	c.Observe(&redimutex.Trace{Lost: func(e redimutex.Event) {
		first.Do(func() {
			delete(held, e.Key)
			unlocked := make(chan struct{})
			for _, m := range held {
				go func() { m.Unlock(); close(unlocked) }()
			}
			<-unlocked
		})
	}})
	require.NoError(t, c.Close())
	assert.Len(t, s.Keys(), 1, "the key of the hold that was lost")
}

// A grant may see a million holds.
func TestAGrantForgetsTheHoldsThatAreOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithLeaseReuse(long), redimutex.WithTTL(3*long)).Mutex("k")
	var holds []weak.Pointer[redimutex.Lease]
	for range 10 {
		require.NoError(t, m.Do(t.Context(), func(context.Context) error {
			holds = append(holds, weak.Make(m.Lease()))
			return nil
		}))
	}
	m.Lock() // the last hold is remembered
	m.Unlock()
	redistest.Wait(t, "the holds are garbage", func() bool {
		runtime.GC()
		for _, l := range holds {
			if l.Value() != nil {
				return false
			}
		}
		return true
	})
}

// What is kept for one with other options is given back in the background, and the caller that comes next waits for that, however
// long it has been in line.
func TestWhoWasInLineForLongWaitsForWhatItsProcessGivesBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithTTL(3*long), redimutex.WithNodeTimeout(time.Second))
	var failed atomic.Int64
	first := c.Mutex("k", redimutex.WithLeaseReuse(long))
	next := c.Mutex("k", redimutex.WithTrace(&redimutex.Trace{Attempt: func(redimutex.Event) { failed.Add(1) }}))
	first.Lock()
	locked := make(chan struct{})
	go func() { next.Lock(); close(locked) }()
	redistest.Wait(t, "a caller in line", func() bool { return c.Stats().Waiting == 1 })
	time.Sleep(1200 * time.Millisecond) // longer than a node timeout
	first.Unlock()
	<-locked
	assert.Zero(t, failed.Load(), "tries that found our own lock")
	next.Unlock()
}
