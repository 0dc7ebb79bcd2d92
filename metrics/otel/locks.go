package redimutexotel

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redimutex/redimutex"
)

const scope = "github.com/redimutex/redimutex/metrics/otel"

// Locks reports the locks of one Client to OpenTelemetry.
type Locks struct {
	client   *redimutex.Client
	config   *config
	spans    *spans // nil: spans are turned off
	times    times
	stop     func()
	callback metric.Registration
	closing  sync.Once
}

// New starts to report the locks of client, until [Locks.Close].
func New(client *redimutex.Client, opts ...Option) (*Locks, error) {
	if client == nil {
		return nil, errors.New("redimutexotel: New needs a Client, and got nil")
	}
	c, err := newConfig(client, opts)
	if err != nil {
		return nil, err
	}
	l := &Locks{client: client, config: c}
	meter := c.meters.Meter(scope)
	if l.times, err = newTimes(meter, c); err != nil {
		return nil, err
	}
	if l.callback, err = l.register(meter); err != nil {
		return nil, err
	}
	l.stop = client.Observe(l.trace())
	return l, nil
}

// trace returns a Trace that reports events to the spans, unless they are turned off, and to the histograms. The histograms
// get the context with this package's span, so that an exemplar leads to it.
func (l *Locks) trace() *redimutex.Trace {
	if _, off := l.config.tracers.(noop.TracerProvider); off { // it would still compute all attributes
		return &redimutex.Trace{
			Acquired: func(e redimutex.Event) { l.times.waited(caller(e), e) },
			GaveUp:   func(e redimutex.Event) { l.times.waited(caller(e), e) },
			Released: func(e redimutex.Event) { l.times.held(caller(e), e) },
		}
	}
	l.spans = newSpans(l.config)
	return &redimutex.Trace{
		Acquired: func(e redimutex.Event) { l.times.waited(l.spans.acquired(caller(e), e), e) },
		GaveUp:   func(e redimutex.Event) { l.times.waited(l.spans.gaveUp(caller(e), e), e) },
		Renewed:  l.spans.renewed,
		Released: func(e redimutex.Event) { l.times.held(l.spans.released(e), e) },
		Lost:     l.spans.lost,
	}
}

// Close stops reporting, and ends the spans of open holds. It does not close the Client.
func (l *Locks) Close() (err error) {
	l.closing.Do(func() {
		l.stop()
		if l.spans != nil {
			l.spans.close()
		}
		err = l.callback.Unregister()
	})
	return err
}

// caller returns the context of the call that the event is about.
func caller(e redimutex.Event) context.Context {
	if e.Context == nil {
		return context.Background()
	}
	return e.Context
}
