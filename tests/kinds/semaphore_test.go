package kinds_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

const key = "s"

// newSemaphore returns a Semaphore with a Client of its own, as in another process.
func newSemaphore(t testing.TB, s *redistest.Server, permits int, opts ...redimutex.Option) *redimutex.Semaphore {
	t.Helper()
	return newClient(t, s.Pool(), append([]redimutex.Option{redimutex.WithQueue()}, opts...)...).Semaphore(key, permits)
}

// unhurried are options for tests of the order. A waiter whose look takes longer than the node timeout loses its place until
// it has asked again. So the node timeout is longer than a stall of a busy machine.
var unhurried = []redimutex.Option{redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10 * time.Second)}

// A permit is what a process has got: a hold, or else an error.
type permit struct {
	who int
	*redimutex.Lease
	err error
}

// acquire makes a process wait for a permit, and keep it. It returns when that process is the nth in the queue.
func acquire(t testing.TB, ctx context.Context, s *redistest.Server, n int, sem *redimutex.Semaphore, who int, held chan<- permit) {
	t.Helper()
	go func() {
		l, err := sem.Acquire(ctx)
		held <- permit{who, l, err}
	}()
	locktest.WaitQueued(t, s, key, n)
}

// next waits until another process has got a permit.
func next(t testing.TB, held <-chan permit) permit {
	t.Helper()
	p := redistest.Receive(t, "a permit", held)
	require.NoError(t, p.err)
	return p
}

func TestPermitsAreGivenInOrderOfArrivalAcrossProcesses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	first := newSemaphore(t, s, 2, unhurried...)
	one, two := start(t, first.Acquire).get(t), start(t, first.Acquire).get(t)
	held := make(chan permit, 6)
	for i := range 6 {
		acquire(t, t.Context(), s, i+1, newSemaphore(t, s, 2, unhurried...), i, held)
	}
	for i := range 6 {
		release(t, two)
		p := next(t, held)
		require.Equal(t, i, p.who)
		two = p.Lease
	}
	release(t, two)
	release(t, one)
	redistest.Wait(t, "nothing is left", func() bool { return len(s.Keys()) == 0 })
}

func TestOneReleaseServesAsManyWaitersAsThereIsRoomFor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	only := newSemaphore(t, s, 1, unhurried...)
	l := start(t, only.Acquire).get(t)
	held := make(chan permit, 4)
	low := newSemaphore(t, s, 1, unhurried...)
	acquire(t, t.Context(), s, 1, low, 0, held)
	for i := range 3 {
		acquire(t, t.Context(), s, i+2, newSemaphore(t, s, 3, unhurried...), i+1, held)
	}
	assert.Empty(t, held, "the first in line blocks those behind it, for whom there is room")
	release(t, l)
	in := []permit{next(t, held), next(t, held), next(t, held)}
	assert.ElementsMatch(t, []int{0, 1, 2}, []int{in[0].who, in[1].who, in[2].who})
	n, err := low.InUse(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, n)
	for _, p := range in {
		release(t, p.Lease)
	}
	release(t, next(t, held).Lease)
}

func TestAWaiterThatLeavesLetsThoseBehindItIn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	high := newSemaphore(t, s, 3, unhurried...)
	l := start(t, high.Acquire).get(t)
	held := make(chan permit, 3)
	ctx, cancel := context.WithCancel(t.Context())
	acquire(t, ctx, s, 1, newSemaphore(t, s, 1, unhurried...), 0, held)
	for i := range 2 {
		acquire(t, t.Context(), s, i+2, newSemaphore(t, s, 3, unhurried...), i+1, held)
	}
	cancel()
	assert.ErrorIs(t, redistest.Receive(t, "the end of the wait", held).err, context.Canceled)
	for range 2 {
		release(t, next(t, held).Lease)
	}
	release(t, l)
}

// The process holds a permit all the time, so it keeps what it knows of the key.
func TestOneThatComesWhenAllOfItsProcessHaveGivenUpHasNotTheirPlace(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	sem := newSemaphore(t, s, 2, unhurried...)
	one, two := start(t, sem.Acquire).get(t), start(t, sem.Acquire).get(t)
	ctx, cancel := context.WithCancel(t.Context())
	var left []*call
	for range 50 {
		left = append(left, startWith(t, ctx, sem.Acquire))
	}
	locktest.WaitQueued(t, s, key, 1)
	locktest.WaitInLine(t, sem.Client(), len(left))
	cancel()
	for _, c := range left {
		redistest.Wait(t, "the end of the wait", c.over)
	}
	locktest.WaitQueued(t, s, key, 0)
	held := make(chan permit, 2)
	acquire(t, t.Context(), s, 1, newSemaphore(t, s, 2, unhurried...), 0, held)
	acquire(t, t.Context(), s, 2, sem, 1, held)
	release(t, two)
	first := next(t, held)
	assert.Equal(t, 0, first.who)
	release(t, one)
	release(t, next(t, held).Lease)
	release(t, first.Lease)
}

func TestWaitersInTheQueueOfASemaphoreAreWokenAndDoNotPoll(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := start(t, newSemaphore(t, s, 1).Acquire).get(t)
	held := make(chan permit, 1)
	acquire(t, t.Context(), s, 1, newSemaphore(t, s, 1, redimutex.WithPollInterval(time.Millisecond)), 0, held)
	seen := s.Monitor()
	began := time.Now()
	time.Sleep(600 * time.Millisecond)
	looks := len(seen.Executed("zcard", key))
	assert.LessOrEqual(t, looks, int(time.Since(began)/(50*time.Millisecond)), "polling takes some hundred looks")
	release(t, l)
	release(t, next(t, held).Lease)
}

func TestThePermitOfAProcessThatDiedGoesToTheNextInLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const ttl = 500 * time.Millisecond
	start(t, newSemaphore(t, s, 1, redimutex.WithTTL(ttl), redimutex.WithoutRenewal()).Acquire).get(t)
	release(t, start(t, newSemaphore(t, s, 1).Acquire).get(t))
}

func TestAShorterExtensionTakesNoTimeFromAPermitOrAReader(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	semaphore := newSemaphore(t, s, 2)
	readers := newClient(t, s.Pool()).RWMutex("readers")
	for _, get := range []locktest.Acquire{semaphore.Acquire, readers.RAcquire} {
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
