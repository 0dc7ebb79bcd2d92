package redimutexotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/redimutex/redimutex/metrics/internal/names"
)

// register makes the figures of the Client be read whenever metrics are collected.
func (l *Locks) register(meter metric.Meter) (metric.Registration, error) {
	oldest, err := meter.Float64ObservableGauge("redimutex.lock.oldest_hold",
		metric.WithUnit("s"), metric.WithDescription(names.OldestHold))
	all, errs := []metric.Observable{oldest}, []error{err}
	instruments := make([]metric.Int64Observable, len(names.Figures))
	for i, f := range names.Figures {
		name, unit, what := "redimutex."+f.OpenTelemetry, metric.WithUnit(f.Unit), metric.WithDescription(f.Help)
		if f.Gauge {
			instruments[i], err = meter.Int64ObservableUpDownCounter(name, unit, what)
		} else {
			instruments[i], err = meter.Int64ObservableCounter(name, unit, what)
		}
		all, errs = append(all, instruments[i]), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := l.client.Stats()
		for i, f := range names.Figures {
			for _, v := range f.Read(s, l.config.servers) {
				own := l.config.own
				if f.Label != "" {
					own = l.config.with(text(f.Label, v.Label))
				}
				o.ObserveInt64(instruments[i], v.N, metric.WithAttributes(own...))
			}
		}
		age := names.Oldest(l.client, func(string) string { return "" })[""]
		o.ObserveFloat64(oldest, age.Seconds(), metric.WithAttributes(l.config.own...))
		return nil
	}, all...)
}
