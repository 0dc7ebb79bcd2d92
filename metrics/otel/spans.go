package redimutexotel

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/metrics/internal/names"
)

const (
	waitSpan = "redimutex.wait"
	holdSpan = "redimutex.hold"
)

// spans makes spans from events. The span of a wait is made when the wait is over, and backdated. The span of a hold is open
// while the hold lasts.
type spans struct {
	config *config
	tracer trace.Tracer

	mu     sync.Mutex
	holds  map[*redimutex.Lease]trace.Span
	closed bool
}

func newSpans(c *config) *spans {
	return &spans{config: c, tracer: c.tracers.Tracer(scope), holds: make(map[*redimutex.Lease]trace.Span)}
}

// acquired returns a context with the span of the wait.
func (s *spans) acquired(ctx context.Context, e redimutex.Event) context.Context {
	now := time.Now()
	waited, wait := s.wait(ctx, e, now)
	wait.End(trace.WithTimestamp(now))
	s.open(ctx, e, now, wait.SpanContext())
	return waited
}

// gaveUp returns a context with the span of the wait.
func (s *spans) gaveUp(ctx context.Context, e redimutex.Event) context.Context {
	now := time.Now()
	waited, wait := s.wait(ctx, e, now)
	switch names.OfWait(e.Err) {
	case names.Unavailable, names.Refused, names.Failed:
		fail(wait, e.Err)
	}
	wait.End(trace.WithTimestamp(now))
	return waited
}

func (s *spans) wait(ctx context.Context, e redimutex.Event, now time.Time) (context.Context, trace.Span) {
	return s.tracer.Start(ctx, waitSpan, trace.WithTimestamp(now.Add(-e.Wait)),
		trace.WithAttributes(s.attributes(e, text(names.Outcome, names.OfWait(e.Err)),
			attribute.Int("redimutex."+names.Attempt, e.Attempt))...))
}

// open begins the span of a hold that has just begun.
func (s *spans) open(ctx context.Context, e redimutex.Event, now time.Time, wait trace.SpanContext) {
	_, hold := s.tracer.Start(ctx, holdSpan, trace.WithTimestamp(now), trace.WithLinks(trace.Link{SpanContext: wait}),
		trace.WithAttributes(s.attributes(e)...))
	if !hold.IsRecording() {
		hold.End()
		return
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		hold.End()
		return
	}
	s.holds[e.Lease] = hold
	s.mu.Unlock()
	// The hold may have ended before it was in holds. Then no event ends the span.
	e.Err = e.Lease.Err()
	switch {
	case errors.Is(e.Err, redimutex.ErrLost):
		s.lost(e)
	case e.Err != nil: // another goroutine has unlocked it
		e.Err = nil
		s.released(e)
	}
}

// take returns the span of a hold, for the caller to end. It is nil if another event has ended it, or it is not recorded.
func (s *spans) take(l *redimutex.Lease) trace.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	hold := s.holds[l]
	delete(s.holds, l)
	return hold
}

func (s *spans) renewed(e redimutex.Event) {
	if e.Err == nil {
		return // one for every third of the TTL would hide the rest
	}
	s.mu.Lock()
	hold := s.holds[e.Lease]
	s.mu.Unlock()
	if hold != nil {
		hold.AddEvent("renewal failed", trace.WithAttributes(text(names.Err, e.Err.Error())))
	}
}

// lost ends the span of a hold, because the lock protects nothing after that.
func (s *spans) lost(e redimutex.Event) {
	hold := s.take(e.Lease)
	if hold == nil {
		return
	}
	hold.AddEvent(names.Lost, trace.WithAttributes(text(names.Reason, names.OfLoss(e.Err))))
	hold.SetAttributes(text(names.Outcome, names.Lost))
	fail(hold, e.Err)
	hold.End()
}

// released returns a context with the span of the hold.
func (s *spans) released(e redimutex.Event) context.Context {
	hold := s.take(e.Lease)
	if hold == nil { // lost before, not sampled, or older than the Locks
		return caller(e)
	}
	hold.SetAttributes(text(names.Outcome, names.OfHold(e.Err)))
	if e.Err != nil {
		fail(hold, e.Err)
	}
	hold.End()
	return trace.ContextWithSpan(caller(e), hold)
}

// close ends the spans of open holds.
func (s *spans) close() {
	s.mu.Lock()
	holds := s.holds
	s.holds, s.closed = nil, true
	s.mu.Unlock()
	for _, hold := range holds {
		hold.End()
	}
}

func (s *spans) attributes(e redimutex.Event, more ...attribute.KeyValue) []attribute.KeyValue {
	all := append(s.config.with(more...), text(names.Key, e.Key), text(names.Kind, e.Kind))
	if e.Owner != "" {
		all = append(all, text(names.Owner, e.Owner))
	}
	if e.Fence != 0 {
		all = append(all, attribute.Int64("redimutex."+names.Fence, e.Fence))
	}
	return all
}

func fail(s trace.Span, err error) { s.SetStatus(codes.Error, names.Clean(err.Error())) }
