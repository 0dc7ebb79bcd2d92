package redimutexotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/metrics/internal/names"
)

// register has the figures of the Client read whenever metrics are collected.
func (l *Locks) register(meter metric.Meter) (metric.Registration, error) {
	var all []metric.Observable
	var errs []error
	gauge := func(name, unit, what string) metric.Int64ObservableUpDownCounter {
		i, err := meter.Int64ObservableUpDownCounter("redimutex."+name, metric.WithUnit(unit), metric.WithDescription(what))
		all, errs = append(all, i), append(errs, err)
		return i
	}
	counter := func(name, unit, what string) metric.Int64ObservableCounter {
		i, err := meter.Int64ObservableCounter("redimutex."+name, metric.WithUnit(unit), metric.WithDescription(what))
		all, errs = append(all, i), append(errs, err)
		return i
	}
	held := gauge("lock.held", "{lock}", "Locks that this process has, also idle ones.")
	waiters := gauge("lock.waiters", "{goroutine}", "Goroutines that wait for a lock.")
	acquired := counter("lock.acquired", "{lock}", "Locks acquired.")
	contended := counter("lock.contended", "{lock}", "Locks acquired not at the first try on the servers.")
	released := counter("lock.released", "{lock}", "Locks unlocked.")
	renewals := counter("lease.renewals", "{renewal}", "Renewals of leases, by outcome.")
	lost := counter("lease.lost", "{lease}", "Leases lost, by reason.")
	errored := counter("server.errors", "{error}", "Failed operations, by server.")
	oldest, err := meter.Float64ObservableGauge("redimutex.lock.oldest_hold", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest hold that is in use, 0 without one."))
	all, errs = append(all, oldest), append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := l.client.Stats()
		tell := func(i metric.Int64Observable, n int64, attribute ...string) {
			own := l.config.own
			if len(attribute) > 0 {
				own = l.config.with(text(attribute[0], attribute[1]))
			}
			o.ObserveInt64(i, n, metric.WithAttributes(own...))
		}
		tell(held, int64(s.Held))
		tell(waiters, int64(s.Waiting))
		tell(acquired, s.Acquired)
		tell(contended, s.Contended)
		tell(released, s.Released)
		tell(renewals, s.Renewed, names.Outcome, names.Renewed)
		tell(renewals, s.NotRenewed, names.Outcome, names.Failed)
		tell(lost, s.LostExpired, names.Reason, string(redimutex.Expired))
		tell(lost, s.LostDeleted, names.Reason, string(redimutex.Deleted))
		tell(lost, s.LostTaken, names.Reason, string(redimutex.Taken))
		for i, n := range s.Errors {
			tell(errored, n, names.Server, l.config.servers[i])
		}
		o.ObserveFloat64(oldest, l.oldest().Seconds(), metric.WithAttributes(l.config.own...))
		return nil
	}, all...)
}

// oldest returns the age of the oldest hold that is in use. A lock that a holder never gives back shows
// nowhere else: it is in no histogram, and no exported span, until it ends.
func (l *Locks) oldest() (age time.Duration) {
	for _, info := range l.client.Locks() {
		if info.Held && !info.Idle {
			age = max(age, time.Since(info.Since))
		}
	}
	return age
}
