package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// After the message of the hand-off, the waiter hears nothing of the server for a while. On a late machine the stall may be
// longer than intended, or a look before the message may give the lock. Then the trial does not count.
func TestLeaseThatWasHandedOverSurvivesAStallOfTheServerOfANodeTimeout(t *testing.T) {
	t.Parallel()
	stallAfterHandOver(t, func(*redistest.Proxy) {}, true)
}

// The hand-off counts from the last look. That look may be old, if many wait or if its answer came late.
func TestLeaseThatWasHandedOverLongAfterTheLastLookSurvivesAStallOfTheServer(t *testing.T) {
	t.Parallel()
	stallAfterHandOver(t, func(p *redistest.Proxy) {
		p.Hold(redistest.Replies)
		time.Sleep(stalledNodeTimeout / 2)
		answered := p.Replied()
		p.Release(redistest.Replies)
		redistest.Wait(t, "the answer to the look", func() bool { return p.Replied() > answered })
	}, false)
}

const stalledNodeTimeout = time.Second

// stallAfterHandOver hands the lock to a waiter over a network that then stalls, for less than its node timeout. The waiter
// must not lose the lock. With byMessage, a trial counts only if the waiter took the lock during the stall.
func stallAfterHandOver(t *testing.T, before func(*redistest.Proxy), byMessage bool) {
	const (
		stall  = stalledNodeTimeout * 7 / 10
		trials = 2
	)
	s := redistest.Start(t)
	p := s.Proxy()
	holder := newMutex(t, s.Pool())
	waiter := newMutex(t, p.Pool(), redimutex.WithNodeTimeout(stalledNodeTimeout))
	lateness := redistest.MeasureLateness()
	defer lateness.Stop()
	for tried, n := 0, 0; n < trials; tried++ {
		require.Less(t, tried, 20*trials, "the machine is too late for this")
		require.NoError(t, holder.LockContext(t.Context(), time.Minute))
		got := startWaiting(t, s, waiter, 1)
		before(p)
		p.Hold(redistest.Requests, redistest.Replies)
		stalled := time.Now()
		unlock(t, holder)
		over := time.NewTimer(stall)
		handed := false
		select {
		case err := <-got:
			require.NoError(t, err)
			handed = true
			<-over.C
		case <-over.C:
		}
		p.Release()
		took := time.Since(stalled)
		if !handed {
			require.NoError(t, <-got)
		}
		l := waiter.Lease()
		if (handed || !byMessage) && took < stalledNodeTimeout*8/10 {
			redistest.Wait(t, "the lease is extended, or lost", func() bool {
				return l.Err() != nil || time.Until(l.Until()) > 2*stalledNodeTimeout
			})
			if lateness.Worst(stalled, time.Now()) < stalledNodeTimeout/10 {
				n++
				require.NoError(t, l.Err(), "after a stall of %v", took)
			}
		}
		_ = waiter.UnlockContext(t.Context()) // on a late machine the lease may be lost
	}
}

// hung makes the first waiter in the queue hang while it is subscribed. It returns the network of that waiter.
func hung(t *testing.T, s *redistest.Server, opts ...redimutex.Option) *redistest.Proxy {
	t.Helper()
	p := s.Proxy()
	got := startWaiting(t, s, newMutex(t, p.Pool(), opts...), 1)
	p.Hold(redistest.Requests, redistest.Replies, redistest.Messages)
	t.Cleanup(func() {
		p.Release()
		<-got // its Client may be closed before
	})
	return p
}

func TestWaiterThatHangsCostsTheOthersOnce(t *testing.T) {
	t.Parallel()
	const nodeTimeout = 500 * time.Millisecond
	s := redistest.Start(t)
	a, b := newMutex(t, s.Pool(), redimutex.WithNodeTimeout(slow)), newMutex(t, s.Pool(), redimutex.WithNodeTimeout(slow))
	a.Lock()
	hung(t, s, redimutex.WithNodeTimeout(nodeTimeout))
	got := startWaiting(t, s, b, 2)
	start := time.Now()
	unlock(t, a)
	require.NoError(t, <-got)
	cost := time.Since(start)
	t.Logf("cost: %v, with a node timeout of %v", cost, nodeTimeout)
	assert.Less(t, cost, slow)
	late := 0
	const rounds = 40
	for range rounds {
		got := startWaiting(t, s, a, 1)
		start := time.Now()
		unlock(t, b)
		require.NoError(t, <-got)
		if time.Since(start) > nodeTimeout/3 {
			late++
		}
		a, b = b, a
	}
	unlock(t, b)
	assert.Less(t, late, rounds/4, "hand-offs that took longer than a message")
}

func TestWaiterThatLetItsGrantLapseGoesToTheEndOfTheLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := newMutex(t, s.Pool())
	// The node timeout is long, so that no hand-off to these two lapses on a late machine.
	second, third := newMutex(t, s.Pool(), redimutex.WithNodeTimeout(slow)), newMutex(t, s.Pool(), redimutex.WithNodeTimeout(slow))
	holder.Lock()
	first := startWorker(t, s.Addr(), 500*time.Millisecond, 1)
	waitQueued(t, s, key, 1)
	gotSecond, gotThird := startWaiting(t, s, second, 2), startWaiting(t, s, third, 3)
	first.Stop()
	unlock(t, holder)
	require.NoError(t, <-gotSecond)
	first.Continue()
	waitQueued(t, s, key, 2) // the first is back in the queue
	unlock(t, second)
	select {
	case err := <-gotThird:
		require.NoError(t, err)
	case said := <-first.Said():
		t.Fatalf("%s, before the third, which did not let it lapse", said)
	}
	unlock(t, third)
	assert.Equal(t, "held", first.Hear())
	unlocks(t, first)
}

// A process is stopped when the lock is handed to it, and the message is still on its way. When the process goes on, another
// has the lock. Only then does the message arrive.
func TestLateMessageOfAnEarlierHandOverMakesNoLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	network := s.Proxy()
	holder, other := newMutex(t, s.Pool()), newMutex(t, s.Pool(), redimutex.WithNodeTimeout(slow))
	for range 3 { // a late machine may miss the moment
		require.NoError(t, holder.LockContext(t.Context(), time.Minute))
		late := startWorker(t, network.Addr(), 500*time.Millisecond, 1)
		waitQueued(t, s, key, 1)
		got := startWaiting(t, s, other, 2)
		network.Hold(redistest.Messages)
		late.Stop()
		unlock(t, holder)
		require.NoError(t, <-got, "the grant of the one that was stopped has lapsed")

		looked := network.Replied()
		late.Continue()
		redistest.Wait(t, "it has looked", func() bool { return network.Replied() > looked })
		network.Release()
		redistest.Wait(t, "it has had time for the message, too", func() bool { return network.Replied() > looked+3 || len(late.Said()) > 0 })
		select {
		case said := <-late.Said():
			require.NoError(t, other.Lease().Err(), "the machine was too late to tell")
			require.Fail(t, "two valid leases", "the late one said %q", said)
		default:
		}
		unlock(t, other)
		require.Equal(t, "held", late.Hear(), "in its turn it gets the lock")
		unlocks(t, late)
	}
}

// A message may come so late that its hand-off has lapsed, and another holder has the lock.
func TestAMessageOfBeforeTheLastLookIsNoLock(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "does not count commands")
	s := redistest.Start(t)
	s.Do("SET", "k", "foreign", "PX", 60_000)
	m := newMutex(t, s.Pool())
	locked := make(chan struct{})
	go func() { m.Lock(); close(locked) }()
	waitQueued(t, s, "k", 1)
	member := queueOf(t, s, "k")
	fields := strings.Fields(member[0])
	looks := s.Calls("evalsha")
	redistest.Wait(t, "some messages, and looks", func() bool {
		s.Do("PUBLISH", fields[0], "0 1 0 "+fields[3])
		return s.Calls("evalsha") > looks+20
	})
	assert.False(t, locktest.Ended(locked))
	s.Do("DEL", "k")
	<-locked
	m.Unlock()
}
