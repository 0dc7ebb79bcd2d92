package main

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/redimutex/redimutex/bench/internal/entrants"
	"github.com/redimutex/redimutex/bench/internal/figures"
	"github.com/redimutex/redimutex/bench/internal/work"
	"github.com/redimutex/redimutex/internal/lab/stats"
)

// take makes figures of what the processes of one turn have counted.
func (t *trial) take(b *figures.Book, row figures.Row, round int, results []work.Result) {
	add := func(m figures.Metric, v float64) { b.Add(row, m, round, v) }
	if t.job.Kind == work.Waiting || t.job.Kind == work.Held {
		r := &results[0]
		seconds := r.Elapsed.Seconds()
		add(figures.Polls, float64(r.Requests)/seconds)
		add(figures.Goroutines, float64(r.Goroutines))
		add(figures.Bytes, float64(r.Bytes)/float64(t.job.Goroutines))
		add(figures.CPU, 100*r.CPU.Seconds()/seconds)
		add(figures.ServerCPU, 100*r.Server.Seconds()/seconds)
		return
	}
	waits, writers, pairs := make(stats.Histogram), make(stats.Histogram), make(stats.Histogram)
	var sum work.Result
	rate := 0.
	for _, r := range results {
		var n int64
		for _, h := range r.Holds {
			n += h
		}
		rate += float64(n) / r.Elapsed.Seconds()
		sum.Holds = append(sum.Holds, r.Holds...)
		sum.Requests += r.Requests
		sum.Mallocs += r.Mallocs
		sum.CPU += r.CPU
		sum.Server += r.Server
		waits.Merge(r.Waits)
		writers.Merge(r.Writers)
		pairs.Merge(r.Pairs)
	}
	add(figures.Rate, rate)
	add(figures.P50, quantile(waits, .5))
	add(figures.P99, quantile(waits, .99))
	add(figures.Writers, quantile(writers, .99))
	add(figures.Pair, quantile(pairs, .5))
	add(figures.Fairness, float64(slices.Min(sum.Holds))/float64(slices.Max(sum.Holds)))
	if row.Library == entrants.Ping { // its round trip is what others' hand-overs are compared with
		waits.Merge(writers)
		add(figures.Handover, quantile(waits, .5))
	} else {
		add(figures.Handover, quantile(handovers(inOrder(results)), .5))
	}
	holds := 0.
	for _, n := range sum.Holds {
		holds += float64(n)
	}
	if holds > 0 {
		add(figures.Requests, float64(sum.Requests)/holds)
		add(figures.Allocs, float64(sum.Mallocs)/holds)
		add(figures.ClientTime, float64(sum.CPU.Microseconds())/holds)
		add(figures.ServerTime, float64(sum.Server.Microseconds())/holds)
	}
}

// quantile is in ms.
func quantile(h stats.Histogram, q float64) float64 {
	if h.Count() == 0 {
		return math.NaN()
	}
	return float64(h.Quantile(q)) / float64(ms)
}

// inOrder returns the holds of all processes in the order in which they began.
func inOrder(results []work.Result) (all []work.Span) {
	for _, r := range results {
		all = append(all, r.Spans...)
	}
	slices.SortFunc(all, func(x, y work.Span) int { return cmp.Compare(x.Got, y.Got) })
	return all
}

// handovers are from just before a release was asked for to the next hold, of a process that was waiting then.
func handovers(spans []work.Span) stats.Histogram {
	all := make(stats.Histogram)
	for i := 1; i < len(spans); i++ {
		before, after := spans[i-1], spans[i]
		if after.Asked < before.Released {
			all.Add(time.Duration(after.Got - before.Released))
		}
	}
	return all
}
