package redimutexprom

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/metrics/internal/names"
)

// A Collector is a [prometheus.Collector] of one Client.
type Collector struct {
	client  *redimutex.Client
	config  *config
	figures []*prometheus.Desc // of [names.Figures]
	oldest  *prometheus.Desc
	failed  *prometheus.CounterVec
	wait    *prometheus.HistogramVec
	hold    *prometheus.HistogramVec
	stop    func()
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a Collector of client; the caller must register it. It observes the locks of client from now until
// [Collector.Close]. It panics if an option makes no sense.
func New(client *redimutex.Client, opts ...Option) *Collector {
	if client == nil {
		panic("redimutexprom: New needs a Client, and got nil")
	}
	c := &Collector{client: client, config: newConfig(client, opts)}
	var keyed []string // labels of metrics that can be split by key
	if c.config.key != nil {
		keyed = []string{names.Key}
	}
	for _, f := range names.Figures {
		var labels []string
		if f.Label != "" {
			labels = []string{f.Label}
		}
		c.figures = append(c.figures, prometheus.NewDesc("redimutex_"+f.Prometheus, f.Help, labels, c.config.labels))
	}
	c.oldest = prometheus.NewDesc("redimutex_oldest_hold_seconds", names.OldestHold, keyed, c.config.labels)
	c.failed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "redimutex_failed_total", Help: "Calls that ended without the lock, by outcome.", ConstLabels: c.config.labels,
	}, []string{names.Outcome})
	for _, outcome := range names.Failures {
		c.failed.WithLabelValues(outcome)
	}
	c.wait = c.histogram("redimutex_wait_seconds",
		"Time from the call to the lock, or to giving up.", c.config.wait, keyed)
	c.hold = c.histogram("redimutex_hold_seconds",
		"Time from the lock to Unlock.", c.config.hold, keyed)
	if err := prometheus.NewPedanticRegistry().Register(c); err != nil { // here rather than at the caller's Register
		panic("redimutexprom: New: " + err.Error())
	}
	c.stop = sync.OnceFunc(client.Observe(c.trace()))
	return c
}

func (c *Collector) histogram(name, help string, buckets []float64, keyed []string) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets, ConstLabels: c.config.labels}
	if c.config.native {
		// The number of native buckets is bounded, and a full histogram is reset at most once an hour.
		opts.NativeHistogramBucketFactor = 1.1
		opts.NativeHistogramMaxBucketNumber = 160
		opts.NativeHistogramMinResetDuration = time.Hour
	}
	return prometheus.NewHistogramVec(opts, append([]string{names.Outcome}, keyed...))
}

// trace feeds the histograms and the count of failures.
func (c *Collector) trace() *redimutex.Trace {
	if c.config.key == nil { // frequent series exist from the start, so that a rate sees their first step
		c.wait.WithLabelValues(names.Acquired)
		c.hold.WithLabelValues(names.Released)
	}
	return &redimutex.Trace{
		Acquired: func(e redimutex.Event) { c.observe(c.wait, names.Acquired, e.Key, e.Wait) },
		GaveUp: func(e redimutex.Event) {
			outcome := names.OfWait(e.Err)
			c.failed.WithLabelValues(outcome).Inc()
			c.observe(c.wait, outcome, e.Key, e.Wait)
		},
		Released: func(e redimutex.Event) { c.observe(c.hold, names.OfHold(e.Err), e.Key, e.Held) },
	}
}

func (c *Collector) observe(h *prometheus.HistogramVec, outcome, key string, d time.Duration) {
	labels := []string{outcome}
	if c.config.key != nil {
		labels = append(labels, c.name(key))
	}
	h.WithLabelValues(labels...).Observe(d.Seconds())
}

// name returns the value of the label "key".
func (c *Collector) name(key string) string { return names.Clean(c.config.key(key)) }

// Close stops observing the locks. The histograms and the count of failures then stay as they are. Close neither unregisters
// the Collector nor closes the Client.
func (c *Collector) Close() { c.stop() }

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range c.figures {
		ch <- desc
	}
	ch <- c.oldest
	c.failed.Describe(ch)
	c.wait.Describe(ch)
	c.hold.Describe(ch)
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s := c.client.Stats()
	for i, f := range names.Figures {
		kind := prometheus.CounterValue
		if f.Gauge {
			kind = prometheus.GaugeValue
		}
		for _, v := range f.Read(s, c.config.servers) {
			if f.Label == "" {
				ch <- prometheus.MustNewConstMetric(c.figures[i], kind, float64(v.N))
			} else {
				ch <- prometheus.MustNewConstMetric(c.figures[i], kind, float64(v.N), v.Label)
			}
		}
	}
	c.collectOldest(ch)
	c.failed.Collect(ch)
	c.wait.Collect(ch)
	c.hold.Collect(ch)
}

// collectOldest collects the age of the oldest hold; with [WithKeyLabel], one for each value of the label.
func (c *Collector) collectOldest(ch chan<- prometheus.Metric) {
	if c.config.key == nil {
		age := names.Oldest(c.client, func(string) string { return "" })[""]
		ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, age.Seconds())
		return
	}
	for name, age := range names.Oldest(c.client, c.name) {
		ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, age.Seconds(), name)
	}
}
