package redimutexprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/metrics/internal/names"
)

// A figure is a series that is read from the Stats of the Client.
type figure struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	read   func(redimutex.Stats) float64
	labels []string // values
}

// figures returns all but the errors by server, whose number depends on the Client.
func figures(constant prometheus.Labels) []figure {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("redimutex_"+name, help, labels, constant)
	}
	renewals := desc("renewals_total", "Renewals of leases, by outcome.", names.Outcome)
	lost := desc("lost_total", "Leases lost, by reason.", names.Reason)
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	type stats = redimutex.Stats
	return []figure{
		{desc("locks_held", "Locks that this process has, also idle ones."), gauge, func(s stats) float64 { return float64(s.Held) }, nil},
		{desc("waiters", "Goroutines that wait for a lock."), gauge, func(s stats) float64 { return float64(s.Waiting) }, nil},
		{desc("acquired_total", "Locks acquired."), counter, func(s stats) float64 { return float64(s.Acquired) }, nil},
		{desc("contended_total", "Locks acquired not at the first try on the servers."), counter, func(s stats) float64 { return float64(s.Contended) }, nil},
		{desc("released_total", "Locks unlocked."), counter, func(s stats) float64 { return float64(s.Released) }, nil},
		{renewals, counter, func(s stats) float64 { return float64(s.Renewed) }, []string{names.Renewed}},
		{renewals, counter, func(s stats) float64 { return float64(s.NotRenewed) }, []string{names.Failed}},
		{lost, counter, func(s stats) float64 { return float64(s.LostExpired) }, []string{string(redimutex.Expired)}},
		{lost, counter, func(s stats) float64 { return float64(s.LostDeleted) }, []string{string(redimutex.Deleted)}},
		{lost, counter, func(s stats) float64 { return float64(s.LostTaken) }, []string{string(redimutex.Taken)}},
	}
}

// serverErrors returns a figure for each server.
func serverErrors(servers []string, constant prometheus.Labels) []figure {
	desc := prometheus.NewDesc("redimutex_server_errors_total", "Failed operations, by server.", []string{names.Server}, constant)
	all := make([]figure, len(servers))
	for i, server := range servers {
		read := func(s redimutex.Stats) float64 { return float64(s.Errors[i]) }
		all[i] = figure{desc, prometheus.CounterValue, read, []string{names.Clean(server)}}
	}
	return all
}

// collectOldest tells how old the oldest hold is, with [WithKeyLabel] for each key that is held. A lock
// that a holder never gives back shows nowhere else: it is in no histogram until it ends.
func (c *Collector) collectOldest(ch chan<- prometheus.Metric) {
	oldest := make(map[string]float64)
	if c.config.key == nil {
		oldest[""] = 0
	}
	for _, l := range c.client.Locks() {
		if !l.Held || l.Idle {
			continue
		}
		name := ""
		if c.config.key != nil {
			name = c.name(l.Key)
		}
		oldest[name] = max(oldest[name], time.Since(l.Since).Seconds())
	}
	for name, age := range oldest {
		var labels []string
		if c.config.key != nil {
			labels = []string{name}
		}
		ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, age, labels...)
	}
}
