package queue_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// The node timeout is long, so that a late machine is none of a far one's reasons to miss its turn.
func TestFarWaitersGetTheirTurnInOrderOfArrival(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	holder := newMutex(t, s.Pool())
	roundTrips := []time.Duration{400 * time.Millisecond, 200 * time.Millisecond, 0, 80 * time.Millisecond, 20 * time.Millisecond}
	var waiters []*redimutex.Mutex
	for _, rt := range roundTrips {
		waiters = append(waiters, newMutex(t, s.Network(rt/2).Pool(), redimutex.WithNodeTimeout(2*time.Second)))
	}
	for range 2 { // who was lucky once
		require.NoError(t, holder.LockContext(t.Context(), time.Minute))
		type turn struct {
			who int
			err error
		}
		turns := make(chan turn, len(waiters))
		for i, m := range waiters {
			go func() {
				err := m.LockContext(context.Background(), time.Minute)
				turns <- turn{i, err}
				_ = m.UnlockContext(context.Background())
			}()
			waitQueued(t, s, key, i+1)
		}
		unlock(t, holder)
		var order []time.Duration
		for range waiters {
			next := <-turns
			require.NoError(t, next.err)
			order = append(order, roundTrips[next.who])
		}
		require.Equal(t, roundTrips, order, "round trips of those who were served")
		redistest.Wait(t, "the last one has unlocked", func() bool { return s.Get(key) == "" })
	}
}

// A span is the time of one hold, or of what is between two.
type span struct{ from, until time.Time }

// A herd is some near clients who take the lock again and again and work under it.
type herd struct {
	work    time.Duration
	cancel  context.CancelFunc
	members sync.WaitGroup

	mu    sync.Mutex
	holds []span // in their order
}

func startHerd(t testing.TB, s *redistest.Server, n int, work time.Duration, opts ...redimutex.Option) *herd {
	ctx, cancel := context.WithCancel(context.Background())
	h := &herd{work: work, cancel: cancel}
	for range n {
		m := newMutex(t, s.Pool(), opts...)
		h.members.Go(func() {
			for m.LockContext(ctx, 0) == nil {
				from := time.Now()
				time.Sleep(work)
				h.mu.Lock()
				h.holds = append(h.holds, span{from, time.Now()})
				h.mu.Unlock()
				_ = m.UnlockContext(context.Background())
			}
		})
	}
	t.Cleanup(h.stop)
	return h
}

func (h *herd) stop() {
	h.cancel()
	h.members.Wait()
}

func (h *herd) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.holds)
}

// idle returns how often for more than d, and what the machine was late by, none of the herd had the lock, nor one of
// the others.
func (h *herd) idle(d time.Duration, others []span, lateness *redistest.Lateness) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for i := 1; i < len(h.holds); i++ {
		gap := span{h.holds[i-1].until, h.holds[i].from}
		if gap.until.Sub(gap.from) > d+3*lateness.Worst(gap.from, gap.until) && !slices.ContainsFunc(others, func(o span) bool {
			return o.from.Before(gap.until) && gap.from.Before(o.until)
		}) {
			n++
		}
	}
	return n
}

func TestFarWaiterGetsItsTurnsAmongNearOnesAtTheCostOfItsOwnHolds(t *testing.T) {
	t.Parallel()
	const (
		near      = 3
		roundTrip = 200 * time.Millisecond
		work      = 20 * time.Millisecond
		turns     = 6
		// What the near ones do while its request is on its way, and one turn of each of them; and as much again.
		fair = 2 * (int(roundTrip/2/work) + near + 1)
	)
	s := redistest.Real(t)
	far := newMutex(t, s.Network(roundTrip/2).Pool(), redimutex.WithNodeTimeout(2*time.Second))
	far.Lock() // it knows its way, and listens from its first wait on
	holder := newMutex(t, s.Pool())
	got := startWaiting(t, s, holder, 1)
	unlock(t, far)
	require.NoError(t, <-got)
	got = startWaiting(t, s, far, 1)
	unlock(t, holder)
	require.NoError(t, <-got)
	unlock(t, far)

	lateness := redistest.MeasureLateness()
	defer lateness.Stop()
	h := startHerd(t, s, near, work)
	redistest.Wait(t, "the near ones fight", func() bool { return h.count() > 2*near })
	var passed []int
	var held []span
	for range turns {
		before := h.count()
		ctx, cancel := context.WithCancel(t.Context())
		giveUp := make(chan struct{})
		go func() {
			defer close(giveUp)
			for ctx.Err() == nil && h.count()-before < 10*fair {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		err := far.LockContext(ctx, time.Minute)
		passed = append(passed, h.count()-before)
		cancel()
		<-giveUp
		if !assert.NoError(t, err, "the near ones have had the lock %d times", h.count()-before) {
			break
		}
		from := time.Now()
		unlock(t, far)
		held = append(held, span{from.Add(-roundTrip), time.Now()}) // it had the lock from when the message was sent
	}
	h.stop()
	slices.Sort(passed)
	t.Logf("holds of the near ones while the far one waited: %v", passed)
	assert.LessOrEqual(t, passed[len(passed)/2], fair, "holds of the others in one wait of the far one, median")
	idle := h.idle(roundTrip/2, held, lateness)
	assert.LessOrEqual(t, idle, turns/2, "times in which nobody had the lock, %d holds", h.count())
}
