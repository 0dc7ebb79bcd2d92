package redimutexotel

import (
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/metrics/internal/names"
)

// An Option changes what is reported and where. Options that make no sense are an error of [New].
type Option func(*config)

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	own     []attribute.KeyValue
	servers []string
	key     func(string) string
}

// WithMeterProvider sets the receiver of the metrics. The default is the global provider; the one of
// go.opentelemetry.io/otel/metric/noop turns metrics off.
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// WithTracerProvider sets the receiver of the spans. The default is the global provider; the one of
// go.opentelemetry.io/otel/trace/noop turns spans off.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// WithAttributes adds attributes to all metrics and spans. A program with several Clients needs them: without them, metrics of
// the same name and attributes would be mixed up.
func WithAttributes(own ...attribute.KeyValue) Option {
	return func(c *config) { c.own = slices.Clone(own) }
}

// WithServerNames sets the values of redimutex.server: one name for each pool of the Client, in their order. The default is
// their number, from 0, as in the text of errors.
func WithServerNames(servers ...string) Option {
	return func(c *config) { c.servers = slices.Clone(servers) }
}

// WithKeyAttribute adds redimutex.key to the two histograms. Its value is the result of name for the key of the lock. name
// must have few different results, because each is kept as long as the process lives. Spans have the key itself, with or
// without this option.
func WithKeyAttribute(name func(key string) string) Option {
	return func(c *config) { c.key = name }
}

func newConfig(client *redimutex.Client, opts []Option) (*config, error) {
	c := &config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("redimutexotel: an Option is nil")
		}
		o(c)
	}
	switch {
	case c.meters == nil:
		return nil, errors.New("redimutexotel: WithMeterProvider(nil): the provider of metric/noop turns metrics off")
	case c.tracers == nil:
		return nil, errors.New("redimutexotel: WithTracerProvider(nil): the provider of trace/noop turns spans off")
	}
	var err error
	if c.servers, err = names.Servers(client, c.servers); err != nil {
		return nil, fmt.Errorf("redimutexotel: %w", err)
	}
	return c, nil
}

// text returns an attribute of this package, with a text that any exporter accepts.
func text(name, value string) attribute.KeyValue {
	return attribute.String("redimutex."+name, names.Clean(value))
}

// with returns the user's own attributes and these.
func (c *config) with(more ...attribute.KeyValue) []attribute.KeyValue {
	return append(slices.Clone(c.own), more...)
}
