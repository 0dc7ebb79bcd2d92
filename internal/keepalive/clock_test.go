package keepalive_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/redistest"
)

// While a machine sleeps, its monotonic clock stops and its wall clock goes on. Slept changes the noted times as such a sleep
// would. Virtual time has only one clock, so these tests run in real time, on leases that last for an hour.

const long = time.Hour

func hourly(terms *keepalive.Terms) { lasting(long)(terms); fixed(terms) }

func never(t *testing.T) func([]*keepalive.Lease) {
	return func([]*keepalive.Lease) { t.Error("renewed") }
}

// soon fails the test unless c is closed long before the monotonic clock would close it.
func soon(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatal("the heartbeat did not notice the sleep")
	}
}

// endsAt waits until the end of the lease is at that time.
func endsAt(t *testing.T, l *keepalive.Lease, at time.Time) {
	t.Helper()
	require.Eventually(t, func() bool { return l.Until().Sub(at).Abs() < 100*time.Millisecond },
		time.Minute, 10*time.Millisecond, "it ends %v later", l.Until().Sub(at))
}

func TestALeaseIsOverWhereTheMachineHasSleptForLonger(t *testing.T) {
	t.Parallel()
	k := keepalive.New(never(t))
	defer k.Close()
	asked, _ := start(t, k, hourly)
	unlocked, told := start(t, k, hourly)
	_, waiting := start(t, k, hourly)
	extended, _ := start(t, k, hourly)
	longer, _ := start(t, k, func(terms *keepalive.Terms) { lasting(2 * long)(terms); fixed(terms) })
	k.Slept(long)
	assert.Equal(t, keepalive.Expired, asked.Reason())
	assert.Equal(t, keepalive.Expired, unlocked.End(keepalive.Unlocked, time.Now()))
	assert.EqualValues(t, 1, told.times.Load())
	extend(extended, long)
	assert.Equal(t, keepalive.Expired, extended.Reason(), "an expired lease was revived")
	soon(t, waiting.lost)
	assert.Equal(t, keepalive.Expired, waiting.reason())
	assert.Equal(t, keepalive.Alive, longer.Reason())
	assert.Len(t, k.Leases(), 1)
}

// The first lease of a Keeper has no heartbeat before it. The same is true of the first lease after a pause in which the wall
// clock was set back.
func TestTheFirstHeartbeatNoticesASleep(t *testing.T) {
	t.Parallel()
	k := keepalive.New(never(t))
	defer k.Close()
	for range 2 {
		_, h := start(t, k, hourly)
		k.Slept(long)
		soon(t, h.lost)
		require.Eventually(t, func() bool { return k.Wakes().IsZero() }, time.Minute, time.Millisecond)
		k.Slept(-2 * long)
	}
}

// A lock that is held for a moment now and then needs no tick of its own.
func TestTheFirstLeaseAfterAPauseWakesNothingBeforeAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(never(t))
		for range 2 {
			l, _ := start(t, k, hourly)
			assert.Equal(t, time.Now().Add(time.Second), k.Wakes())
			assert.Equal(t, keepalive.Unlocked, l.End(keepalive.Unlocked, time.Now()))
			time.Sleep(time.Minute)
		}
		k.Close()
	})
}

// Each of these locks sets the timer twice.
func TestLocksThatComeAndGoDoNotPutTheHeartbeatOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(never(t))
		start(t, k, hourly)
		beat := k.Wakes()
		for range 10 {
			time.Sleep(50 * time.Millisecond)
			l, _ := start(t, k, func(terms *keepalive.Terms) { terms.HandOff = terms.TTL })
			assert.True(t, k.Wakes().Before(beat))
			assert.Equal(t, keepalive.Unlocked, l.End(keepalive.Unlocked, time.Now()))
			assert.Equal(t, beat, k.Wakes())
		}
		k.Close()
	})
}

// The timer of a renewal fires before the next heartbeat.
func TestALeaseThatASleepHasEndedIsNotRenewed(t *testing.T) {
	t.Parallel()
	k := keepalive.New(never(t))
	defer k.Close()
	_, h := start(t, k, lasting(time.Second))
	k.Slept(time.Second)
	soon(t, h.lost)
	assert.Equal(t, keepalive.Expired, h.reason())
}

func TestASleepBringsTheEndNearer(t *testing.T) {
	t.Parallel()
	k := keepalive.New(never(t))
	defer k.Close()
	l, _ := start(t, k, hourly)
	k.Slept(long / 3)
	endsAt(t, l, initial(l).Add(-long/3))
	assert.Equal(t, keepalive.Alive, l.Reason())
}

func TestARenewalComesSoonerAfterASleep(t *testing.T) {
	t.Parallel()
	renewed := make(chan struct{})
	k := keepalive.New(func(due []*keepalive.Lease) {
		succeed(due)
		close(renewed)
	})
	defer k.Close()
	start(t, k, lasting(long))
	k.Slept(long / 2)
	soon(t, renewed)
}

// An answer to what was sent before the sleep arrives after it.
func TestAnExtensionThatWasSentBeforeASleepCountsByTheWallClock(t *testing.T) {
	t.Parallel()
	k := keepalive.New(never(t))
	defer k.Close()
	l, _ := start(t, k, hourly)
	sent := time.Now()
	until := sent.Add(2 * long)
	k.Slept(long / 3)
	endsAt(t, l, initial(l).Add(-long/3)) // a heartbeat has happened
	l.Extended(redistest.Earlier(until, long/3), 0)
	assert.WithinDuration(t, until.Add(-long/3), l.Until(), 100*time.Millisecond, "it waits for a heartbeat")
	endsAt(t, l, until.Add(-long/3))
}

// The lock was granted before the sleep, and the lease begins after it.
func TestALeaseThatBeginsAfterASleepCountsByTheWallClock(t *testing.T) {
	t.Parallel()
	k := keepalive.New(never(t))
	defer k.Close()
	l, _ := start(t, k, func(terms *keepalive.Terms) {
		hourly(terms)
		terms.Until = redistest.Earlier(terms.Until, long/3)
	})
	assert.WithinDuration(t, initial(l).Add(-long/3), l.Until(), 100*time.Millisecond, "it waits for a heartbeat")
	endsAt(t, l, initial(l).Add(-long/3))
	_, h := start(t, k, func(terms *keepalive.Terms) {
		hourly(terms)
		terms.Until = redistest.Earlier(terms.Until, long)
	})
	soon(t, h.lost)
}

func TestAnEndByTheWallClockStaysWhereThatIsSetBack(t *testing.T) {
	t.Parallel()
	k := keepalive.New(never(t))
	defer k.Close()
	l, h := start(t, k, hourly)
	k.Slept(long)
	require.Equal(t, keepalive.Expired, l.Reason())
	k.Slept(-2 * long)
	require.Equal(t, keepalive.Expired, l.Reason(), "revived")
	extend(l, long)
	require.Equal(t, keepalive.Expired, l.Reason(), "revived")
	soon(t, h.lost)
}

func TestAWallClockThatIsSetBackChangesNothing(t *testing.T) {
	t.Parallel()
	k := keepalive.New(never(t))
	defer k.Close()
	l, h := start(t, k, hourly)
	k.Slept(-long)
	assert.WithinDuration(t, h.terms.Until, l.Until(), 50*time.Millisecond)
	later, _ := start(t, k, hourly)
	k.Slept(long / 3) // later than the time to which it was set back, earlier than before that
	endsAt(t, later, initial(later).Add(-long/3))
	assert.WithinDuration(t, h.terms.Until, l.Until(), 50*time.Millisecond)
	assert.Zero(t, h.times.Load())
}
