package redimutexotel_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	redimutexotel "github.com/redimutex/redimutex/metrics/otel"
)

func TestWaitAndHoldAreSpansOfTheCallersTrace(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool(), redimutex.WithOwner("host 1"), redimutex.WithFencing(),
		redimutex.WithTTL(time.Minute), redimutex.WithPollInterval(time.Millisecond))
	d := newDesk(t)
	d.watch(t, client)
	s.Do("SET", "k\xff", "foreign", "PX", 60_000)
	ctx, request := d.tracers.Tracer("test").Start(t.Context(), "request")
	m := client.Mutex("k\xff")
	began := time.Now()
	done := make(chan error)
	go func() { done <- m.LockContext(ctx, 0) }()
	redistest.Wait(t, "the waiter", func() bool { return client.Stats().Waiting == 1 })
	redistest.Wait(t, "a wait that a slow machine can't hide", func() bool { return time.Since(began) > 2*time.Second })
	freed := time.Now()
	s.Do("DEL", "k\xff")
	require.NoError(t, <-done)
	locked, fence := time.Now(), m.Lease().Fence()
	m.Unlock()
	request.End()

	waits, holds := d.named("redimutex.wait"), d.named("redimutex.hold")
	require.Len(t, waits, 1)
	require.Len(t, holds, 1)
	wait, hold := waits[0], holds[0]
	assert.Equal(t, request.SpanContext().SpanID(), wait.Parent.SpanID())
	assert.Equal(t, request.SpanContext().SpanID(), hold.Parent.SpanID())
	require.Len(t, hold.Links, 1)
	assert.Equal(t, wait.SpanContext.SpanID(), hold.Links[0].SpanContext.SpanID())

	assert.WithinRange(t, wait.StartTime, began.Add(-time.Millisecond), freed, "backdated to the call")
	assert.WithinRange(t, wait.EndTime, freed, locked)
	assert.Equal(t, wait.EndTime, hold.StartTime)
	assert.False(t, hold.EndTime.Before(locked))

	got := tags(wait)
	assert.NotEqual(t, "1", got["attempt"])
	delete(got, "attempt")
	assert.Equal(t, map[string]string{"key": "k\uFFFD", "kind": "mutex", "owner": "host 1", "fence": tags(hold)["fence"], "outcome": "acquired"}, got)
	got = tags(hold)
	assert.NotZero(t, fence)
	assert.Equal(t, map[string]string{"key": "k\uFFFD", "kind": "mutex", "owner": "host 1", "fence": tags(wait)["fence"], "outcome": "released"}, got)
	assert.Equal(t, codes.Unset, wait.Status.Code)
	assert.Equal(t, codes.Unset, hold.Status.Code)
}

func TestALockWithoutAContextMakesLinkedTraces(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool())
	d := newDesk(t)
	d.watch(t, client)
	m := client.Mutex("k")
	m.Lock()
	m.Unlock()
	wait, hold := d.named("redimutex.wait")[0], d.named("redimutex.hold")[0]
	assert.False(t, wait.Parent.IsValid())
	assert.False(t, hold.Parent.IsValid())
	require.Len(t, hold.Links, 1)
	assert.Equal(t, wait.SpanContext.TraceID(), hold.Links[0].SpanContext.TraceID())
}

func TestALossEndsTheSpanOfTheHoldWithAnError(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cut := redistest.NewBetween(s.Pool())
	client := locktest.Client(t, cut, redimutex.WithTTL(time.Minute))
	d := newDesk(t)
	d.watch(t, client)
	m := client.Mutex("k")
	m.Lock()
	cut.Set(redistest.Cut)
	require.ErrorIs(t, m.Lease().Extend(t.Context(), time.Minute), redimutex.ErrUnavailable)
	cut.Set(nil)
	s.Do("SET", "k", "another")
	require.ErrorIs(t, m.Lease().Extend(t.Context(), time.Minute), redimutex.ErrLost)
	redistest.Wait(t, "the span", func() bool { return len(d.named("redimutex.hold")) == 1 })
	require.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)

	holds := d.named("redimutex.hold")
	require.Len(t, holds, 1, "Unlock ends it no second time")
	hold := holds[0]
	assert.Equal(t, codes.Error, hold.Status.Code)
	assert.Contains(t, hold.Status.Description, "taken")
	assert.Equal(t, "lost", tags(hold)["outcome"])
	require.Len(t, hold.Events, 2)
	assert.Equal(t, "renewal failed", hold.Events[0].Name)
	assert.Equal(t, attribute.Key("redimutex.err"), hold.Events[0].Attributes[0].Key)
	assert.Contains(t, hold.Events[0].Attributes[0].Value.AsString(), "too few servers")
	assert.Equal(t, "lost", hold.Events[1].Name)
	assert.Equal(t, "taken", hold.Events[1].Attributes[0].Value.AsString())
}

func TestAHoldThatNobodyReleasesHasASpanWhenItIsLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool(), redimutex.WithTTL(50*time.Millisecond), redimutex.WithoutRenewal())
	d := newDesk(t)
	d.watch(t, client)
	client.Mutex("k").Lock()
	redistest.Wait(t, "the span", func() bool { return len(d.named("redimutex.hold")) == 1 })
	hold := d.named("redimutex.hold")[0]
	assert.Equal(t, "lost", tags(hold)["outcome"])
	assert.Contains(t, hold.Status.Description, "expired")
}

func TestALossThatIsToldBeforeTheLockEndsTheSpanAsWell(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lost := make(chan struct{})
	// The Trace of the Mutex is called before that of the desk. So late delays what the desk hears.
	late := &redimutex.Trace{Acquired: func(redimutex.Event) { <-lost }}
	client := locktest.Client(t, s.Pool(), redimutex.WithTTL(50*time.Millisecond), redimutex.WithoutRenewal(),
		redimutex.WithTrace(late))
	d := newDesk(t)
	d.watch(t, client)
	client.Observe(&redimutex.Trace{Lost: func(redimutex.Event) { close(lost) }}) // called after that of the desk
	client.Mutex("k").Lock()
	require.Len(t, d.named("redimutex.hold"), 1)
	assert.Equal(t, "lost", tags(d.named("redimutex.hold")[0])["outcome"])
}

// Another goroutine may unlock as soon as the Mutex is locked.
func TestAnUnlockThatIsToldBeforeTheLockEndsTheSpanAsWell(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locked, unlocked := make(chan struct{}), make(chan struct{})
	late := &redimutex.Trace{Acquired: func(redimutex.Event) {
		close(locked)
		<-unlocked
	}}
	client := locktest.Client(t, s.Pool(), redimutex.WithTTL(time.Minute), redimutex.WithTrace(late))
	d := newDesk(t)
	d.watch(t, client)
	m := client.Mutex("k")
	go func() {
		defer close(unlocked)
		<-locked
		m.Unlock()
	}()
	m.Lock()
	require.Len(t, d.named("redimutex.hold"), 1)
	assert.Equal(t, "released", tags(d.named("redimutex.hold")[0])["outcome"])
}

func TestOnlyWhatWasNotTheCallersDoingIsAnErrorOfTheWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cut := redistest.NewBetween(s.Pool())
	client := locktest.Client(t, cut)
	d := newDesk(t)
	d.watch(t, client)
	m := client.Mutex("k")
	s.Do("SET", "k", "foreign", "PX", 60_000)
	require.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrLocked)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.LockContext(cancelled, 0), context.Canceled)
	cut.Set(redistest.Cut)
	require.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrUnavailable)

	waits := d.named("redimutex.wait")
	require.Len(t, waits, 3)
	for i, want := range []struct {
		outcome string
		code    codes.Code
	}{{"locked", codes.Unset}, {"cancelled", codes.Unset}, {"unavailable", codes.Error}} {
		assert.Equal(t, want.outcome, tags(waits[i])["outcome"])
		assert.Equal(t, want.code, waits[i].Status.Code, want.outcome)
	}
	assert.Empty(t, d.named("redimutex.hold"))
}

func TestSpansCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool())
	d := newDesk(t)
	l, err := redimutexotel.New(client, redimutexotel.WithMeterProvider(d.meters), redimutexotel.WithTracerProvider(noop.NewTracerProvider()))
	require.NoError(t, err)
	m := client.Mutex("k")
	m.Lock()
	require.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrLocked)
	m.Unlock()
	_, counts, _ := d.collect(t)
	assert.Equal(t, numbers{
		"redimutex.lock.wait outcome=acquired": 1, "redimutex.lock.wait outcome=locked": 1, "redimutex.lock.hold outcome=released": 1,
	}, counts)
	require.NoError(t, l.Close())
}

func TestWhatIsNotSampledIsNotKept(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Client(t, s.Pool())
	d := newDesk(t, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
	d.watch(t, client)
	unsampled := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})
	m := client.Mutex("k")
	require.NoError(t, m.LockContext(trace.ContextWithSpanContext(t.Context(), unsampled), 0))
	m.Unlock()
	assert.Empty(t, d.spans.GetSpans())
	_, counts, _ := d.collect(t)
	assert.EqualValues(t, 1, counts["redimutex.lock.hold outcome=released"])
}
