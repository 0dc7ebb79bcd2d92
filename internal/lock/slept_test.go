package lock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// untold is an Observer that ignores all events.
type untold struct{}

func (untold) Waiting(context.Context)                                    {}
func (untold) Tried(context.Context, int, time.Duration, *quorum.Failure) {}
func (untold) Unavailable(*quorum.Failure)                                {}
func (untold) Renewed(*quorum.Failure)                                    {}
func (untold) Lost(keepalive.Reason)                                      {}
func (untold) LostIdle(keepalive.Reason)                                  {}

// The monotonic clock stops while a machine sleeps. No exported function can make a machine sleep, so these tests use
// unexported ones.

func TestAGrantFromBeforeTheMachineSleptIsNotUsed(t *testing.T) {
	t.Parallel()
	e := New([]server.Pool{redistest.Start(t).Pool()})
	t.Cleanup(func() { e.Close(time.Second) })
	terms := &server.Terms{
		Kind: server.Mutex, Want: "m", TTL: time.Hour, Timeout: 10 * time.Second, Fence: server.NoFence, Reuse: 10 * time.Minute,
	}
	hold := func() string {
		h := &Hold{Observer: untold{}}
		r := e.Lock(t.Context(), &Call{Key: "k", Terms: terms, Pause: func(int) time.Duration { return time.Millisecond }}, h)
		require.Nil(t, r.Failure)
		reason, f := h.Release(t.Context(), time.Now())
		require.Equal(t, keepalive.Unlocked, reason)
		require.Nil(t, f)
		return h.Token()
	}
	first := hold()
	require.Equal(t, first, hold(), "it is kept")
	g := e.keys["k"].grant.Load()
	g.mu.Lock()
	g.reuse.until = redistest.Earlier(g.reuse.until, 20*time.Minute)
	g.mu.Unlock()
	assert.NotEqual(t, first, hold())
}

func TestAHandOffFromBeforeTheMachineSleptIsNotUsed(t *testing.T) {
	t.Parallel()
	e := New([]server.Pool{redistest.Start(t).Pool()})
	t.Cleanup(func() { e.Close(time.Second) })
	c := Call{Key: "k", Terms: &server.Terms{Kind: server.Mutex, Want: "m", TTL: time.Hour, Timeout: time.Second}}
	for slept, want := range map[time.Duration]state{0: held, 20 * time.Minute: trying} {
		a := &acquisition{Call: c, engine: e, key: e.ref(&c), hold: &Hold{Observer: untold{}}}
		a.grant = a.key.newGrant(&a.Call)
		a.grant.votes.Spec().Extras = &server.Extras{HandOff: 10 * time.Minute}
		a.ticket = &ticket{queued: true, looked: redistest.Earlier(time.Now(), slept)}
		assert.Equal(t, want, a.accept(0))
	}
}

func TestASpareFromBeforeTheMachineSleptIsNotUsed(t *testing.T) {
	t.Parallel()
	e := New([]server.Pool{redistest.Start(t).Pool()})
	t.Cleanup(func() { e.Close(time.Second) })
	c := Call{Key: "k", Terms: &server.Terms{Kind: server.Reader, Want: "r", TTL: time.Hour, Timeout: time.Second}}
	for slept, want := range map[time.Duration]bool{0: true, 40 * time.Minute: false} {
		a := &acquisition{Call: c, engine: e, key: e.ref(&c), hold: &Hold{Observer: untold{}}}
		spare := a.key.newGrant(&a.Call)
		spare.votes.At, spare.votes.Valid = redistest.Earlier(time.Now(), slept), quorum.Validity(c.Terms.TTL)
		a.key.leave().spares = []*Grant{spare}
		assert.Equal(t, want, a.inherit())
	}
}
