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

// take adds the figures of one turn to b, from what the processes counted. It returns the holds in the order of their start.
func (t *trial) take(b *figures.Book, row figures.Row, round int, results []work.Result) []work.Span {
	add := func(m figures.Metric, v float64) { b.Add(row, m, round, v) }
	if t.job.Kind == work.Waiting || t.job.Kind == work.Held {
		r := &results[0]
		seconds := r.Elapsed.Seconds()
		add(figures.Polls, float64(r.Requests)/seconds)
		add(figures.Goroutines, float64(r.Goroutines))
		add(figures.Bytes, float64(r.Bytes)/float64(t.job.Goroutines))
		add(figures.CPU, 100*r.CPU.Seconds()/seconds)
		add(figures.ServerCPU, 100*r.Server.Seconds()/seconds)
		return nil
	}
	var sum work.Result
	rate, holds := 0., 0.
	for i, r := range results {
		sum.Add(&results[i])
		n := 0.
		for _, h := range r.Holds {
			n += float64(h)
		}
		holds += n
		rate += n / r.Elapsed.Seconds()
	}
	slices.SortFunc(sum.Spans, func(x, y work.Span) int { return cmp.Compare(x.Got, y.Got) })
	add(figures.Rate, rate)
	add(figures.P50, quantile(sum.Waits, .5))
	add(figures.P99, quantile(sum.Waits, .99))
	add(figures.Writers, quantile(sum.Writers, .99))
	add(figures.Pair, quantile(sum.Pairs, .5))
	add(figures.Fairness, float64(slices.Min(sum.Holds))/float64(slices.Max(sum.Holds)))
	if row.Library == entrants.Ping { // the hand-overs of the others are compared with its round trip
		sum.Waits.Merge(sum.Writers)
		add(figures.Handover, quantile(sum.Waits, .5))
	} else {
		add(figures.Handover, quantile(handovers(sum.Spans), .5))
	}
	if holds > 0 {
		if sum.Held > 0 {
			add(figures.Hold, float64(sum.Held)/float64(ms)/holds)
		}
		add(figures.Requests, float64(sum.Requests)/holds)
		add(figures.Allocs, float64(sum.Mallocs)/holds)
		add(figures.ClientTime, float64(sum.CPU.Microseconds())/holds)
		add(figures.ServerTime, float64(sum.Server.Microseconds())/holds)
	}
	return sum.Spans
}

// quantile returns a quantile in ms, or NaN if there are no values.
func quantile(h stats.Histogram, q float64) float64 {
	if h.Count() == 0 {
		return math.NaN()
	}
	return float64(h.Quantile(q)) / float64(ms)
}

// handovers returns the times from just before a release to the next hold, if the next holder was already waiting.
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
