package redimutexprom

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/metrics/internal/names"
)

// An Option changes what a [Collector] shows. Options that make no sense panic in [New].
type Option func(*config)

type config struct {
	labels  prometheus.Labels
	servers []string
	wait    []float64
	hold    []float64
	native  bool
	key     func(string) string
}

// WithLabels adds labels with fixed values to all series, such as the name of a Client in a program with several. A name that
// Prometheus does not allow, or that a series has already, panics in [New].
func WithLabels(labels prometheus.Labels) Option { return func(c *config) { c.labels = labels } }

// WithServerNames sets the values of the label "server": one name for each pool of the Client, in their order. The default is
// their number, from 0, as in the text of errors.
func WithServerNames(servers ...string) Option {
	return func(c *config) { c.servers = slices.Clone(servers) }
}

// WithBuckets sets the upper limits of the buckets of the two histograms, in seconds and rising. An empty list keeps the
// default: 16 buckets from 1 ms to 5 minutes.
func WithBuckets(wait, hold []float64) Option {
	return func(c *config) {
		if len(wait) > 0 {
			c.wait = slices.Clone(wait)
		}
		if len(hold) > 0 {
			c.hold = slices.Clone(hold)
		}
	}
}

// WithNativeHistograms adds native buckets to the histograms, each about 10% wider than the one before, for servers that
// scrape them. The classic buckets stay for other servers.
func WithNativeHistograms() Option { return func(c *config) { c.native = true } }

// WithKeyLabel adds a label "key" to the two histograms and to redimutex_oldest_hold_seconds. Its value is the result of name
// for the key of the lock. Each value costs some 20 series per outcome, which stay as long as the process lives. So name must
// have few different results: "invoices" for "invoices:4711", not the key itself if there are many keys. It must be fast and
// safe for concurrent use.
func WithKeyLabel(name func(key string) string) Option {
	return func(c *config) { c.key = name }
}

func newConfig(client *redimutex.Client, opts []Option) *config {
	c := &config{wait: names.Buckets(), hold: names.Buckets()}
	for _, o := range opts {
		if o == nil {
			panic("redimutexprom: an Option is nil")
		}
		o(c)
	}
	var err error
	if c.servers, err = names.Servers(client, c.servers); err != nil {
		panic("redimutexprom: " + err.Error())
	}
	return c
}
