package redimutex_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A diary is a Trace that records its events, as "step key".
type diary struct {
	mu     sync.Mutex
	steps  []string
	events []redimutex.Event
}

func (d *diary) trace() *redimutex.Trace {
	note := func(step string) func(redimutex.Event) {
		return func(e redimutex.Event) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.steps, d.events = append(d.steps, step+" "+e.Key), append(d.events, e)
		}
	}
	return &redimutex.Trace{
		Waiting: note("waiting"), Attempt: note("attempt"), Acquired: note("acquired"), GaveUp: note("gave up"),
		Renewed: note("renewed"), Released: note("released"), Lost: note("lost"),
	}
}

// take returns the events since its last call.
func (d *diary) take() ([]string, []redimutex.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	steps, events := d.steps, d.events
	d.steps, d.events = nil, nil
	return steps, events
}

func TestObserversAreToldOfAllLocksOfAClientUntilTheyStop(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool())
	a, b := c.Mutex("a"), c.Mutex("b")
	a.Lock() // before there is an observer
	var first, second diary
	stopFirst, stopSecond := c.Observe(first.trace()), c.Observe(second.trace())
	a.Unlock()
	b.Lock()
	b.Unlock()
	want := []string{"released a", "acquired b", "released b"}
	steps, _ := first.take()
	assert.Equal(t, want, steps)
	steps, _ = second.take()
	assert.Equal(t, want, steps)

	stopFirst()
	stopFirst() // a second call does no harm
	b.Lock()
	stopSecond()
	b.Unlock()
	steps, _ = first.take()
	assert.Empty(t, steps)
	steps, _ = second.take()
	assert.Equal(t, []string{"acquired b"}, steps)
	assert.Panics(t, func() { c.Observe(nil) })
	assert.Same(t, c, b.Client())
}

func TestPoolsOfAClientAreThoseItWasMadeWith(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pools := []redimutex.Pool{s.Pool(), s.Pool(), s.Pool()}
	c := newClientOver(t, pools)
	c.Pools()[0] = nil // changes nothing
	assert.Equal(t, pools, c.Pools())
}

func TestEveryCallThatWantsTheLockIsToldToTheEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool())
	var d diary
	c.Observe(d.trace())
	m, other := c.Mutex("k"), c.Mutex("k")
	m.Lock()
	hold := m.Lease()
	type mark struct{}
	ctx := context.WithValue(t.Context(), mark{}, "mine")
	require.ErrorIs(t, other.LockContext(ctx, 20*time.Millisecond), redimutex.ErrLocked)
	require.ErrorIs(t, other.TryLockContext(ctx), redimutex.ErrLocked)
	m.Unlock()
	steps, events := d.take()
	require.Equal(t, []string{"acquired k", "waiting k", "gave up k", "gave up k", "released k"}, steps)
	assert.Same(t, hold, events[0].Lease)
	assert.Same(t, hold, events[4].Lease)
	for _, e := range events[1:4] {
		assert.Equal(t, "mine", e.Context.Value(mark{}), "the context of the call, or one made of it")
		assert.Nil(t, e.Lease)
	}
	assert.Positive(t, events[2].Wait)
	assert.ErrorIs(t, events[2].Err, redimutex.ErrLocked)

	s.Do("SET", "k", "foreign")
	require.ErrorIs(t, m.LockContext(ctx, -1), redimutex.ErrLocked)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, m.LockContext(cancelled, 0), context.Canceled)
	steps, events = d.take()
	require.Equal(t, []string{"attempt k", "gave up k", "gave up k"}, steps)
	assert.Equal(t, 1, events[1].Attempt)
	assert.ErrorIs(t, events[2].Err, context.Canceled)
	assert.Zero(t, events[2].Attempt)
}

func TestALossIsToldOfTheHoldThatHasIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), redimutex.WithLeaseReuse(time.Minute), redimutex.WithTTL(3*time.Minute))
	var d diary
	c.Observe(d.trace())
	m := c.Mutex("k")
	m.Lock()
	m.Unlock()
	m.Lock() // by the same grant
	l := m.Lease()
	s.Do("DEL", "k")
	require.ErrorIs(t, l.Extend(t.Context(), time.Minute), redimutex.ErrLost)
	require.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
	steps, events := d.take()
	require.Equal(t, []string{"acquired k", "released k", "acquired k", "lost k", "released k"}, steps)
	assert.NotSame(t, l, events[1].Lease)
	for _, e := range events[2:] {
		assert.Same(t, l, e.Lease)
	}
	assert.ErrorIs(t, events[3].Err, redimutex.ErrLost)
}

func TestLocksShowsWhatIsHeldAndWaitedFor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), redimutex.WithOwner("me"), redimutex.WithTTL(time.Minute))
	assert.Empty(t, c.Locks())
	held, wanted := c.Mutex("held", redimutex.WithFencing()), c.Mutex("wanted")
	held.Lock()
	s.Do("SET", "wanted", "d9ad4a0c-2a5c-4d1c-a4b0-6ba4a8b0f2f1 another", "PX", 60_000)
	ctx, cancel := context.WithCancel(t.Context())
	var waiters sync.WaitGroup
	for _, m := range []*redimutex.Mutex{held, wanted, wanted} {
		waiters.Go(func() { assert.Error(t, m.LockContext(ctx, 0)) })
	}
	redistest.Wait(t, "the waiters", func() bool {
		all := c.Locks()
		return len(all) == 2 && all[0].Waiting == 1 && all[1].Waiting == 2
	})
	all := c.Locks()
	l := held.Lease()
	assert.Equal(t, redimutex.LockInfo{
		Key: "held", Kind: "mutex", Held: true, Holds: 1, Owner: "me", Fence: l.Fence(), Since: all[0].Since, Until: l.Until(), TTL: time.Minute, Waiting: 1,
	}, all[0])
	assert.WithinDuration(t, l.Until(), all[0].Since, time.Minute)
	assert.False(t, all[1].Held)
	require.ErrorIs(t, all[1].Err, redimutex.ErrLocked)
	assert.ErrorContains(t, all[1].Err, "another")
	cancel()
	waiters.Wait()
	held.Unlock()
	assert.Empty(t, c.Locks())
}

func TestALostLockIsNotSaidToBeWaitedForByItsHolder(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"one server": 1, "three": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pools []redimutex.Pool
			var servers []*redistest.Server
			for range n {
				servers = append(servers, redistest.Start(t))
				pools = append(pools, servers[len(servers)-1].Pool())
			}
			c := newClientOver(t, pools, redimutex.WithTTL(time.Second))
			m := c.Mutex("k")
			m.Lock()
			for _, s := range servers {
				s.Do("SET", "k", "other")
			}
			redistest.Receive(t, "the loss", m.Lease().Done())
			ctx, cancel := context.WithCancel(t.Context())
			var waiters sync.WaitGroup
			for waiting := range 3 {
				locktest.WaitInLine(t, c, waiting)
				require.Len(t, c.Locks(), min(waiting, 1))
				for _, info := range c.Locks() {
					assert.Equal(t, waiting, info.Waiting)
				}
				waiters.Go(func() { assert.Error(t, m.LockContext(ctx, 0)) })
			}
			cancel()
			waiters.Wait()
			require.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
		})
	}
}

func TestLocksShowsWhatIsKeptForTheNextHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), redimutex.WithLeaseReuse(time.Minute), redimutex.WithTTL(3*time.Minute))
	m := c.Mutex("k")
	m.Lock()
	require.Len(t, c.Locks(), 1)
	assert.False(t, c.Locks()[0].Idle)
	m.Unlock()
	require.Len(t, c.Locks(), 1)
	assert.True(t, c.Locks()[0].Idle)
}

func TestTraceTellsWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		var d diary
		m := newMutex(t, pool, "k", redimutex.WithOwner("me"), redimutex.WithTTL(9*time.Second), redimutex.WithTrace(d.trace()))
		require.NoError(t, server.Set("k", "foreign"))
		server.SetTTL("k", 40*time.Millisecond)
		m.Lock()
		l := m.Lease()
		time.Sleep(4 * time.Second)
		server.Del("k")
		<-l.Done()
		synctest.Wait()
		assert.Error(t, m.UnlockContext(t.Context()))

		steps, events := d.take()
		require.Equal(t, []string{"attempt k", "acquired k", "renewed k", "lost k", "released k"}, steps, "one loss is told once")
		for _, e := range events {
			assert.Equal(t, "me", e.Owner)
		}
		assert.ErrorIs(t, events[0].Err, redimutex.ErrLocked)
		assert.Equal(t, 1, events[0].Attempt)
		assert.Equal(t, 2, events[1].Attempt)
		assert.GreaterOrEqual(t, events[1].Wait, 50*time.Millisecond)
		assert.NoError(t, events[2].Err)
		assert.True(t, events[2].Until.After(events[1].Until))
		assert.InDelta(t, 3*time.Second, events[2].Held, float64(200*time.Millisecond))
		for _, e := range events[3:] {
			assert.ErrorIs(t, e.Err, redimutex.ErrLost)
		}
	})
}

func TestARenewalThatIsUnderWayAtTheLossIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		hangs := redistest.NewBetween(pool)
		var d diary
		m := newMutex(t, hangs, "k", redimutex.WithTTL(3*time.Second), redimutex.WithNodeTimeout(time.Second), redimutex.WithTrace(d.trace()))
		m.Lock()
		l := m.Lease()
		hangs.Set(func(command redistest.Command) (any, error) {
			time.Sleep(time.Minute)
			return command.Run()
		})
		<-l.Done()
		time.Sleep(10 * time.Second)
		assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
		steps, _ := d.take()
		assert.Equal(t, []string{"acquired k", "renewed k", "lost k", "released k"}, steps, "the second renewal has ended after the lease")
		hangs.Set(nil)
		time.Sleep(5 * time.Minute) // all that hangs comes back
	})
}

func TestTraceWithoutFunctionsIsFine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", redimutex.WithTrace(&redimutex.Trace{}))
	m.Lock()
	assert.Error(t, newMutex(t, s.Pool(), "k", redimutex.WithTrace(&redimutex.Trace{})).TryLockContext(t.Context()))
	require.NoError(t, m.Lease().Extend(context.Background(), time.Minute))
	s.Do("DEL", "k")
	assert.Error(t, m.UnlockContext(t.Context()))
}

func TestAnEventHasTheFieldsThatItsTableSays(t *testing.T) {
	seen := make(map[string][]redimutex.Event)
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		c := newClient(t, pool, redimutex.WithTTL(3*time.Second))
		var d diary
		c.Observe(d.trace())
		a, b := c.Mutex("k"), c.Mutex("k")
		a.Lock()
		require.Error(t, b.LockContext(t.Context(), 20*time.Millisecond)) // it waits in this process
		require.NoError(t, server.Set("foreign", "d9ad4a0c-2a5c-4d1c-a4b0-6ba4a8b0f2f1"))
		server.SetTTL("foreign", time.Minute)
		require.Error(t, c.Mutex("foreign").LockContext(t.Context(), 500*time.Millisecond)) // it tries again and again
		server.Del("k")
		<-a.Lease().Done()
		require.Error(t, a.UnlockContext(t.Context()))
		require.NoError(t, server.Set("k", "foreign"))
		server.SetTTL("k", 40*time.Millisecond)
		a.Lock()
		time.Sleep(2 * time.Second) // time for a renewal
		a.Unlock()
		synctest.Wait()
		steps, events := d.take()
		for i, step := range steps {
			if what, _, _ := strings.Cut(step, " "); what != "released" || events[i].Err == nil {
				seen[what] = append(seen[what], events[i])
			}
		}
	})

	table := between(t, read(t, "trace.go"), "//\t          Context", "type Event struct")
	rows := 0
	for line := range strings.Lines(table) {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "//\t"), " ")
		of := seen[strings.ToLower(name)]
		if name == "GaveUp" {
			of = seen["gave"]
		}
		if _, ok := reflect.TypeFor[redimutex.Trace]().FieldByName(name); !ok {
			continue
		}
		rows++
		if !assert.NotEmpty(t, of, name) {
			continue
		}
		cell := func(heading string) string {
			at := strings.Index("//\t          Context  Lease  Attempt  Wait  Held  Until  Err", heading)
			return strings.TrimSpace((strings.TrimSuffix(line, "\n") + strings.Repeat(" ", 80))[at:][:2])
		}
		for _, field := range []string{"Context", "Lease", "Attempt", "Wait", "Held", "Until"} {
			there := slices.ContainsFunc(of, func(e redimutex.Event) bool { return !reflect.ValueOf(e).FieldByName(field).IsZero() })
			assert.Equal(t, cell(field) == "x", there, "%s of %s", field, name)
		}
		assert.Equal(t, cell("Err") == "x", of[0].Err != nil, "Err of %s", name)
		assert.Equal(t, "mutex", of[0].Kind, name)
	}
	assert.Equal(t, reflect.TypeFor[redimutex.Trace]().NumField(), rows, "functions of a Trace in the table")
}

func TestAnEventNamesTheKindOfItsLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool())
	var d diary
	c.Observe(d.trace())
	nothing := func(context.Context) error { return nil }
	rw := c.RWMutex("rw")
	require.NoError(t, c.Semaphore("s", 2).Do(t.Context(), nothing))
	require.NoError(t, rw.RDo(t.Context(), nothing))
	l, err := rw.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Downgrade(t.Context()))
	rw.RUnlock()
	steps, events := d.take()
	for i, want := range []string{"semaphore", "semaphore", "reader", "reader", "writer", "reader"} {
		assert.Equal(t, want, events[i].Kind, "%d: %s", i, steps[i])
	}
}
