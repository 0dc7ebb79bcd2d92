package redimutexotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/metrics/internal/names"
)

// times are the histograms of waits and holds, and the counter of calls that ended without the lock.
type times struct {
	config     *config
	wait, hold metric.Float64Histogram
	failed     metric.Int64Counter

	// Frequent options are prepared, unless they depend on the key.
	acquired, released metric.RecordOption
}

func newTimes(meter metric.Meter, c *config) (times, error) {
	limits := metric.WithExplicitBucketBoundaries(names.Buckets()...)
	wait, err := meter.Float64Histogram("redimutex.lock.wait", limits, metric.WithUnit("s"),
		metric.WithDescription("Time from the call to the lock, or to giving up."))
	hold, err2 := meter.Float64Histogram("redimutex.lock.hold", limits, metric.WithUnit("s"),
		metric.WithDescription("Time from the lock to Unlock."))
	failed, err3 := meter.Int64Counter("redimutex.lock.failed", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that ended without the lock, by outcome."))
	prepared := func(outcome string) metric.RecordOption {
		return metric.WithAttributeSet(attribute.NewSet(c.with(text(names.Outcome, outcome))...))
	}
	t := times{c, wait, hold, failed, prepared(names.Acquired), prepared(names.Released)}
	if err := errors.Join(err, err2, err3); err != nil {
		return t, err
	}
	for _, outcome := range names.Failures {
		t.fail(context.Background(), outcome, 0)
	}
	return t, nil
}

func (t *times) fail(ctx context.Context, outcome string, n int64) {
	t.failed.Add(ctx, n, metric.WithAttributes(t.config.with(text(names.Outcome, outcome))...))
}

func (t *times) waited(ctx context.Context, e redimutex.Event) {
	outcome := names.OfWait(e.Err)
	if outcome != names.Acquired {
		t.fail(ctx, outcome, 1)
	}
	t.wait.Record(ctx, e.Wait.Seconds(), t.attributes(outcome, e.Key))
}

func (t *times) held(ctx context.Context, e redimutex.Event) {
	t.hold.Record(ctx, e.Held.Seconds(), t.attributes(names.OfHold(e.Err), e.Key))
}

func (t *times) attributes(outcome, key string) metric.RecordOption {
	switch {
	case t.config.key != nil:
		return metric.WithAttributes(t.config.with(text(names.Outcome, outcome), text(names.Key, t.config.key(key)))...)
	case outcome == names.Acquired:
		return t.acquired
	case outcome == names.Released:
		return t.released
	}
	return metric.WithAttributes(t.config.with(text(names.Outcome, outcome))...)
}
