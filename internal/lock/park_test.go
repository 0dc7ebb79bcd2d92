package lock

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
)

// earlier returns t with a wall reading that is d earlier, and the same monotonic one. That is how a time
// looks that was taken before the machine slept for d.
func earlier(t time.Time, d time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t)) // a flag, 33 bits of seconds, 30 bits of nanoseconds
	nanos := (*wall<<1>>31)*1e9 + *wall&(1<<30-1) - uint64(d)
	*wall = 1<<63 | nanos/1e9<<30 | nanos%1e9
	return t
}

// slept begins a hold that was given before the machine slept for a minute, which no timer has seen yet.
func slept(t *testing.T, e *Engine, terms *Terms, h *Hold) *Grant {
	k := e.ref("k", nil)
	require.True(t, k.fifo.TryAcquire())
	now := time.Now()
	g := newGrant(k, terms, "token", quorum.Grant{At: earlier(now, time.Minute), Valid: time.Minute + 9*time.Second}, 0, h)
	require.NotNil(t, g)
	return g
}

func TestGrantFromBeforeTheMachineSleptIsNotKeptForTheNextHold(t *testing.T) {
	t.Parallel()
	e := newEngine(t, redistest.Start(t))
	terms := terms
	terms.Reuse, terms.NodeTimeout = 4*time.Second, 5*time.Second
	h := &Hold{Observer: quiet{}}
	g := slept(t, e, &terms, h)
	assert.False(t, g.usable(&terms, time.Now()))
	r, _ := h.Release(t.Context(), time.Now())
	assert.Equal(t, keepalive.Deleted, r, "the server was asked")
	assert.Nil(t, g.key.parked.Load())
	forgotten(t, e)
}

// The grant was swapped out, and is lost before the next hold is its hold.
func TestAHoldOfAGrantThatIsLostMeanwhileHasEnded(t *testing.T) {
	t.Parallel()
	e := newEngine(t, redistest.Start(t))
	first, f := lock(t, e, call(terms))
	require.Nil(t, f.Failure)
	first.grant.lease.Lose(keepalive.Deleted)
	next := &Hold{Observer: quiet{}}
	next.begin(first.grant)
	assert.True(t, next.ended(), "nobody else will tell it")
	first.Release(t.Context(), time.Now())
	forgotten(t, e)
}

// The message came while the machine slept, or just before.
func TestAHandOffFromBeforeTheMachineSleptIsAskedFor(t *testing.T) {
	t.Parallel()
	e := newEngine(t, redistest.Start(t))
	for slept, want := range map[time.Duration]state{0: held, time.Hour: trying} {
		k := e.ref("k", nil)
		x := &ticket{engine: e, key: k, terms: &terms, queued: true, looked: earlier(time.Now(), slept)}
		x.place.HandOff = time.Minute
		a := acquisition{Call: Call{Terms: &terms}, engine: e, key: k, hold: &Hold{Observer: quiet{}}, ticket: x}
		assert.Equal(t, want, a.accept(t.Context(), 0), "it slept for %v", slept)
	}
}

// A teller notes a loss.
type teller struct {
	quiet
	told *keepalive.Reason
}

func (t teller) Lost(r keepalive.Reason) { *t.told = r }

// reusable begins a hold whose grant may see others.
func reusable(t *testing.T, e *Engine) *Hold {
	terms := terms
	terms.Reuse, terms.Fencing = time.Second, true
	h, _ := lock(t, e, call(terms))
	return h
}

// The keep-alive, or whoever has asked it, knows of the loss, and has not told the hold yet.
func TestUnlockTellsALossOfWhichTheHoldHasNotHeard(t *testing.T) {
	t.Parallel()
	e := newEngine(t, redistest.Start(t))
	h := reusable(t, e)
	told := keepalive.Alive
	h.Observer = teller{told: &told}
	h.grant.hold.Store(&Hold{Observer: quiet{}, grant: h.grant}) // the one before
	h.grant.lease.Lose(keepalive.Deleted)
	h.grant.hold.Store(h)
	r, _ := h.Release(t.Context(), time.Now())
	assert.Equal(t, keepalive.Deleted, r)
	assert.Equal(t, keepalive.Deleted, told, "whoever traces it")
	forgotten(t, e)
}

// It was lost while Unlock was about to leave it to the next one.
func TestAGrantIsNotParkedWhereItsHoldHasEnded(t *testing.T) {
	t.Parallel()
	e := newEngine(t, redistest.Start(t))
	h := reusable(t, e)
	h.end(keepalive.Deleted)
	assert.False(t, h.grant.park(h, time.Now()))
	h.Release(t.Context(), time.Now())
	forgotten(t, e)
}

func TestAGrantThatWasParkedIsForgottenWithItsRelease(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(e *Engine, g *Grant){
		"disposed of": func(_ *Engine, g *Grant) { g.unpark() },
		"Close":       func(e *Engine, _ *Grant) { e.Close(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, redistest.Start(t))
			h := reusable(t, e)
			h.Release(t.Context(), time.Now())
			end(e, h.grant)
			forgotten(t, e)
			assert.False(t, h.grant.reuse.timer.Stop(), "a timer keeps it in memory")
		})
	}
}
