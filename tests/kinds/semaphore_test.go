package kinds_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

const key = "s"

// newSemaphore returns a Semaphore of a Client of its own, as another process would have it.
func newSemaphore(t testing.TB, s *redistest.Server, permits int, opts ...redimutex.Option) (*redimutex.Client, *redimutex.Semaphore) {
	t.Helper()
	c := locktest.Client(t, []redimutex.Pool{s.Pool()}, append([]redimutex.Option{redimutex.WithQueue()}, opts...)...)
	return c, c.Semaphore(key, permits)
}

// unhurried are for tests of the order. A waiter whose look takes longer than the node timeout gives its place up until it
// has asked again, so a stall of a busy machine has to be shorter than that.
var unhurried = []redimutex.Option{redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10 * time.Second)}

// waitQueued waits until so many processes are in the queue of the server; one member more is the mark of the last look.
func waitQueued(t testing.TB, s *redistest.Server, n int) {
	t.Helper()
	redistest.Wait(t, "the waiters are in the queue", func() bool {
		return s.Do("ZCARD", "redimutex:queue:{"+key+"}") == int64(n+1)
	})
}

// A line is who has got a permit, in order.
type line struct {
	mu  sync.Mutex
	who []int
}

func (l *line) add(who int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.who = append(l.who, who)
}

func (l *line) all() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.who)
}

// acquire has a process wait for a permit, and keep it.
func acquire(t testing.TB, ctx context.Context, sem *redimutex.Semaphore, who int, got *line, held chan<- *redimutex.Lease) {
	go func() {
		l, err := sem.Acquire(ctx)
		if err != nil {
			held <- nil
			return
		}
		assert.NoError(t, l.Err())
		got.add(who)
		held <- l
	}()
}

func TestPermitsAreGivenInOrderOfArrivalAcrossProcesses(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	_, first := newSemaphore(t, s, 2, unhurried...)
	one, err := first.Acquire(t.Context())
	require.NoError(t, err)
	two, err := first.Acquire(t.Context())
	require.NoError(t, err)
	var got line
	held := make(chan *redimutex.Lease, 6)
	for i := range 6 {
		_, sem := newSemaphore(t, s, 2, unhurried...)
		acquire(t, t.Context(), sem, i, &got, held)
		waitQueued(t, s, i+1)
	}
	require.NoError(t, two.Release(t.Context()))
	next := <-held
	for range 5 {
		require.NoError(t, next.Release(t.Context()))
		next = <-held
	}
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5}, got.all())
	require.NoError(t, next.Release(t.Context()))
	require.NoError(t, one.Release(t.Context()))
	redistest.Wait(t, "nothing is left", func() bool { return len(s.Keys()) == 0 })
}

func TestOneReleaseServesAsManyWaitersAsThereIsRoomFor(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	_, only := newSemaphore(t, s, 1, unhurried...)
	l, err := only.Acquire(t.Context())
	require.NoError(t, err)
	var got line
	held := make(chan *redimutex.Lease, 4)
	_, low := newSemaphore(t, s, 1, unhurried...)
	acquire(t, t.Context(), low, 0, &got, held)
	waitQueued(t, s, 1)
	for i := range 3 {
		_, sem := newSemaphore(t, s, 3, unhurried...)
		acquire(t, t.Context(), sem, i+1, &got, held)
		waitQueued(t, s, i+2)
	}
	assert.Empty(t, got.all(), "the first in line blocks those behind it, for whom there is room")
	require.NoError(t, l.Release(t.Context()))
	in := []*redimutex.Lease{<-held, <-held, <-held}
	assert.ElementsMatch(t, []int{0, 1, 2}, got.all())
	n, err := low.InUse(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, n)
	for _, l := range in {
		require.NoError(t, l.Release(t.Context()))
	}
	require.NoError(t, (<-held).Release(t.Context()))
}

func TestAWaiterThatLeavesLetsThoseBehindItIn(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	_, high := newSemaphore(t, s, 3, unhurried...)
	l, err := high.Acquire(t.Context())
	require.NoError(t, err)
	var got line
	held := make(chan *redimutex.Lease, 3)
	ctx, cancel := context.WithCancel(t.Context())
	_, low := newSemaphore(t, s, 1, unhurried...)
	acquire(t, ctx, low, 0, &got, held)
	waitQueued(t, s, 1)
	for i := range 2 {
		_, sem := newSemaphore(t, s, 3, unhurried...)
		acquire(t, t.Context(), sem, i+1, &got, held)
		waitQueued(t, s, i+2)
	}
	cancel()
	assert.Nil(t, <-held)
	for range 2 {
		require.NoError(t, (<-held).Release(t.Context()))
	}
	require.NoError(t, l.Release(t.Context()))
}

func TestWaitersInTheQueueOfASemaphoreAreWokenAndDoNotPoll(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	_, first := newSemaphore(t, s, 1)
	l, err := first.Acquire(t.Context())
	require.NoError(t, err)
	var got line
	held := make(chan *redimutex.Lease, 1)
	_, sem := newSemaphore(t, s, 1, redimutex.WithPollInterval(time.Millisecond))
	acquire(t, t.Context(), sem, 0, &got, held)
	waitQueued(t, s, 1)
	seen := s.Monitor()
	began := time.Now()
	time.Sleep(600 * time.Millisecond)
	looks := len(seen.Executed("zcard", key))
	assert.LessOrEqual(t, looks, int(time.Since(began)/(50*time.Millisecond)), "polling takes some hundred looks")
	require.NoError(t, l.Release(t.Context()))
	require.NoError(t, (<-held).Release(t.Context()))
}

func TestThePermitOfAProcessThatDiedGoesToTheNextInLine(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	const ttl = 500 * time.Millisecond
	_, dead := newSemaphore(t, s, 1, redimutex.WithTTL(ttl), redimutex.WithoutRenewal())
	_, err := dead.Acquire(t.Context())
	require.NoError(t, err)
	_, sem := newSemaphore(t, s, 1)
	l, err := sem.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
}

func TestAShorterExtensionTakesNoTimeFromAPermitOrAReader(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	_, semaphore := newSemaphore(t, s, 2)
	readers := locktest.Client(t, []redimutex.Pool{s.Pool()}).RWMutex("readers")
	for _, get := range []func(context.Context) (*redimutex.Lease, error){semaphore.Acquire, readers.RAcquire} {
		l, err := get(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Extend(t.Context(), time.Hour))
		set := slices.DeleteFunc(s.Keys(), func(k string) bool { return s.Do("TYPE", k) != "zset" })
		require.Len(t, set, 1)
		before := s.Do("ZSCORE", set[0], l.Token())
		require.NoError(t, l.Extend(t.Context(), time.Minute))
		assert.Equal(t, before, s.Do("ZSCORE", set[0], l.Token()))
		require.NoError(t, l.Release(t.Context()))
	}
}
