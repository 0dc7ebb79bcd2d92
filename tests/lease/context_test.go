package lease_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

type valueKey struct{}

// A request is what a context holds on to, and big enough to be an allocation of its own.
type request [64]byte

func TestAContextOfALeaseIsForgottenWhenItsParentEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithTTL(time.Minute)).Mutex("k")
	m.Lock()
	l := m.Lease()
	const requests = 100
	var forgotten atomic.Int32
	for range requests {
		serve(l, &forgotten)
	}
	deadline := time.Now().Add(10 * time.Second)
	for forgotten.Load() < requests && time.Now().Before(deadline) {
		runtime.GC()
		time.Sleep(time.Millisecond) // clean-ups run on a goroutine of their own
	}
	assert.EqualValues(t, requests, forgotten.Load(), "requests that a leader has served, and that nothing holds on to")
	require.NoError(t, l.Err())
	ctx := l.Context(t.Context())
	assert.NoError(t, ctx.Err())
	assert.NoError(t, m.UnlockContext(t.Context()))
	<-ctx.Done()
	assert.ErrorIs(t, context.Cause(ctx), redimutex.ErrUnlocked)
}

// serve derives a context from that of a request, which then ends, and counts when it is collected.
func serve(l *redimutex.Lease, forgotten *atomic.Int32) {
	r := new(request)
	runtime.AddCleanup(r, func(n *atomic.Int32) { n.Add(1) }, forgotten)
	parent, end := context.WithCancel(context.WithValue(context.Background(), valueKey{}, r))
	ctx := l.Context(parent)
	end()
	<-ctx.Done()
}
