package keepalive_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/keepalive"
)

// The tests run in bubbles of virtual time, where a timer fires at the exact time. A bubble fails if a goroutine is left over,
// so each test also checks for leaks.

const ttl = 9 * time.Second

// A teller counts the losses that it hears of.
type teller struct {
	lost  chan struct{} // closed at the first loss
	times atomic.Int64
	last  atomic.Int32
	terms keepalive.Terms // of its lease
}

func (h *teller) Lost(r keepalive.Reason) {
	h.last.Store(int32(r))
	if h.times.Add(1) == 1 {
		close(h.lost)
	}
}

func (h *teller) reason() keepalive.Reason { return keepalive.Reason(h.last.Load()) }

// start begins a lease that is valid for ttl, unless change says otherwise.
func start(t *testing.T, k *keepalive.Keeper, change func(*keepalive.Terms)) (*keepalive.Lease, *teller) {
	t.Helper()
	h := &teller{lost: make(chan struct{})}
	now := time.Now()
	terms := keepalive.Terms{Began: now, Until: now.Add(ttl), TTL: ttl, Renew: true, Holder: h}
	if change != nil {
		change(&terms)
	}
	h.terms = terms
	l := new(keepalive.Lease)
	require.True(t, k.Start(l, terms))
	return l, h
}

func fixed(terms *keepalive.Terms) { terms.Renew = false }

// lasting sets a TTL.
func lasting(d time.Duration) func(*keepalive.Terms) {
	return func(terms *keepalive.Terms) { terms.TTL, terms.Until = d, terms.Began.Add(d) }
}

// extend extends the lease as a server does that answers at once.
func extend(l *keepalive.Lease, d time.Duration) {
	now := time.Now()
	l.Extended(now.Add(d), 0)
}

// succeed is a renewal that succeeds at once.
func succeed(due []*keepalive.Lease) {
	for _, l := range due {
		extend(l, l.TTL())
		l.Renewed()
	}
}

// fail is a renewal that fails at once.
func fail(due []*keepalive.Lease) {
	for _, l := range due {
		l.Renewed()
	}
}

// lived asserts that the loss is reported now: shortly before until, where the validity, which lasted for span, ends.
func lived(t *testing.T, h *teller, until time.Time, span time.Duration) {
	t.Helper()
	select {
	case <-h.lost:
	case <-time.After(time.Until(until.Add(time.Second))):
		t.Error("the loss is not told")
		return
	}
	left := time.Until(until)
	assert.Positive(t, left, "told too late")
	assert.LessOrEqual(t, left, min(max(span/100, time.Millisecond), 50*time.Millisecond), "told far too early")
	assert.Equal(t, keepalive.Expired, h.reason())
}

func TestTheReasonGoesByTheClockAndNotByTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(fail)
		// The validity is already over, but its timer has not fired when the test asks for the reason.
		l, h := start(t, k, func(terms *keepalive.Terms) { terms.Until = time.Now() })
		assert.Equal(t, keepalive.Expired, l.Reason())
		extend(l, ttl)
		assert.Equal(t, keepalive.Expired, l.Reason(), "an expired lease was revived")
		assert.Equal(t, keepalive.Expired, l.End(keepalive.Unlocked, time.Now()), "End did not notice the expiry")
		synctest.Wait()
		assert.Equal(t, keepalive.Expired, l.Reason())
		assert.EqualValues(t, 1, h.times.Load(), "how often the loss was told")
		k.Close()
	})
}

func TestTheFirstEndWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(succeed)

		l, h := start(t, k, nil)
		assert.Equal(t, keepalive.Unlocked, l.End(keepalive.Unlocked, time.Now()))
		l.End(keepalive.Taken, time.Now())
		assert.Equal(t, keepalive.Unlocked, l.Reason())
		time.Sleep(2 * ttl)
		assert.Equal(t, keepalive.Unlocked, l.Reason(), "the validity went on counting after the end")
		assert.Equal(t, keepalive.Unlocked, l.End(keepalive.Unlocked, time.Now()))
		assert.Zero(t, h.times.Load(), "End is no loss")

		l, h = start(t, k, nil)
		l.End(keepalive.Taken, time.Now())
		l.End(keepalive.Deleted, time.Now())
		assert.Equal(t, keepalive.Taken, l.End(keepalive.Unlocked, time.Now()))
		assert.Equal(t, keepalive.Taken, l.Reason())
		assert.Equal(t, keepalive.Taken, h.reason())
		assert.EqualValues(t, 1, h.times.Load())
		k.Close()
	})
}

func TestNothingRevivesALeaseThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(func([]*keepalive.Lease) { t.Error("renewed after the end") })
		for _, end := range []func(*keepalive.Lease){
			func(l *keepalive.Lease) { l.End(keepalive.Unlocked, time.Now()) },
			func(l *keepalive.Lease) { l.End(keepalive.Deleted, time.Now()) },
		} {
			l, _ := start(t, k, nil)
			end(l)
			extend(l, ttl)
			l.Renewed()
			assert.NotEqual(t, keepalive.Alive, l.Reason())
			assert.Empty(t, k.Leases())
		}
		time.Sleep(2 * ttl)
		k.Close()
		l := new(keepalive.Lease)
		require.False(t, k.Start(l, keepalive.Terms{Until: time.Now().Add(ttl), TTL: ttl, Renew: true}))
		extend(l, ttl)
		assert.Equal(t, keepalive.Closed, l.Reason())
		assert.Empty(t, k.Leases())
	})
}

func TestRacingEndsLeaveOneReason(t *testing.T) {
	lost := 0
	for range 500 {
		k := keepalive.New(fail)
		l, h := start(t, k, nil)
		var all sync.WaitGroup
		var was keepalive.Reason
		ends := []func(){
			func() { was = l.End(keepalive.Unlocked, time.Now()) },
			func() { l.End(keepalive.Taken, time.Now()) },
			func() { k.Close() },
			func() { extend(l, ttl) },
		}
		for _, i := range rand.Perm(len(ends)) { // otherwise the same one is the first almost always
			all.Go(ends[i])
		}
		all.Wait()
		require.Equal(t, was, l.Reason())
		if was > keepalive.Unlocked {
			lost++
			require.EqualValues(t, 1, h.times.Load())
			require.Equal(t, was, h.reason())
		} else {
			require.Zero(t, h.times.Load())
		}
		require.Empty(t, k.Leases())
	}
	assert.Positive(t, lost)
	assert.Less(t, lost, 500)
}

// initial is the end of the validity that l was started with.
func initial(l *keepalive.Lease) time.Time { return l.Holder().(*teller).terms.Until }

// A confirmation may arrive after that of a later and longer extension.
func TestALateConfirmationNeverBringsTheEndNearer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(succeed)
		l, _ := start(t, k, nil)
		sent := time.Now()
		time.Sleep(ttl / 9)
		extend(l, 9*ttl)
		until := l.Until()
		l.Extended(sent.Add(ttl), 0)
		assert.Equal(t, until, l.Until())
		k.Close()
	})
}

// The lease is valid for an hour, and its renewals ask for a second. They can wait until a renewal would extend it.
func TestARenewalThatBringsNothingIsNoBusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewals atomic.Int64
		k := keepalive.New(func(due []*keepalive.Lease) {
			if renewals.Add(1) > 1000 {
				panic("a busy loop")
			}
			succeed(due)
		})
		l, _ := start(t, k, lasting(time.Second))
		l.Extended(time.Now().Add(time.Hour), time.Second)
		time.Sleep(time.Hour - 2*time.Second)
		synctest.Wait()
		assert.Zero(t, renewals.Load())
		time.Sleep(time.Minute)
		assert.Equal(t, keepalive.Alive, l.Reason())
		assert.InDelta(t, 3*time.Minute/time.Second, renewals.Load(), 10)
		k.Close()
	})
}

func TestARenewalThatFailsAtOnceIsNoBusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewals atomic.Int64
		k := keepalive.New(func(due []*keepalive.Lease) {
			if renewals.Add(1) > 1000 {
				panic("a busy loop")
			}
			fail(due)
		})
		_, h := start(t, k, nil)
		<-h.lost
		assert.InDelta(t, (ttl*2/3)/(ttl/20), renewals.Load(), 2)
		k.Close()
	})
}

// The pause after a failed renewal leaves time for another renewal, even in the shortest lease.
func TestTheShortestLeaseSurvivesARenewalThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewals atomic.Int64
		k := keepalive.New(func(due []*keepalive.Lease) {
			time.Sleep(time.Millisecond)
			if renewals.Add(1)%2 == 1 {
				fail(due)
			} else {
				succeed(due)
			}
		})
		l, _ := start(t, k, lasting(10*time.Millisecond))
		time.Sleep(time.Second)
		assert.Equal(t, keepalive.Alive, l.Reason())
		assert.Greater(t, renewals.Load(), int64(100))
		k.Close()
	})
}
