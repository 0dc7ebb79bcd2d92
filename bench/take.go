package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/redimutex/redimutex/bench/internal/figures"
	"github.com/redimutex/redimutex/bench/internal/work"
	"github.com/redimutex/redimutex/internal/lab/stats"
	"github.com/redimutex/redimutex/internal/lab/turns"
)

// takeLoad makes figures of what the processes of one round have counted.
func takeLoad(b *figures.Book, row figures.Row, round int, _ *work.Job, results []work.Result) {
	waits, pairs := make(stats.Histogram), make(stats.Histogram)
	var rate float64
	var clients, server time.Duration
	var holds, requests, mallocs int64
	for _, r := range results {
		n := r.HoldsTotal()
		rate += float64(n) / r.Elapsed.Seconds()
		holds += n
		requests += r.Requests
		mallocs += int64(r.Mallocs)
		clients += r.CPU
		server += r.Server
		waits.Merge(r.Waits)
		pairs.Merge(r.Pairs)
		trouble(b, row, &r)
	}
	b.Add(row, figures.Rate, round, rate)
	b.AddWaits(row, waits)
	if waits.Count() > 0 {
		b.Add(row, figures.P50, round, ms(waits.Quantile(.5)))
		b.Add(row, figures.P99, round, ms(waits.Quantile(.99)))
	}
	if pairs.Count() > 0 {
		b.Add(row, figures.Pair, round, ms(pairs.Quantile(.5)))
	}
	if holds > 0 {
		b.Add(row, figures.Requests, round, float64(requests)/float64(holds))
		b.Add(row, figures.Allocs, round, float64(mallocs)/float64(holds))
		b.Add(row, figures.ClientTime, round, float64(clients.Microseconds())/float64(holds))
		b.Add(row, figures.ServerTime, round, float64(server.Microseconds())/float64(holds))
	}
}

// takeContended is takeLoad where goroutines compete.
func takeContended(b *figures.Book, row figures.Row, round int, j *work.Job, results []work.Result) {
	takeLoad(b, row, round, j, results)
	var holds []int64
	for _, r := range results {
		holds = append(holds, r.Holds...)
	}
	if most := slices.Max(holds); most > 0 {
		b.Add(row, figures.Fairness, round, float64(slices.Min(holds))/float64(most))
	}
	b.Spans[row] = spans(results)
}

// spans returns the holds of all processes in order.
func spans(results []work.Result) (all []work.Span) {
	for _, r := range results {
		all = append(all, r.Spans...)
	}
	slices.SortFunc(all, func(x, y work.Span) int { return cmp.Compare(x.Got, y.Got) })
	return all
}

// takeHandover finds the holds that follow one of the other process, which had waited before that
// ended. The time counts from the moment just before the release was asked for.
func takeHandover(b *figures.Book, row figures.Row, round int, _ *work.Job, results []work.Result) {
	between := make(stats.Histogram)
	all := spans(results)
	for i := 1; i < len(all); i++ {
		before, after := all[i-1], all[i]
		if before.Goroutine != after.Goroutine && after.Asked < before.Released {
			between.Add(time.Duration(after.Got - before.Released))
		}
	}
	if between.Count() > 0 {
		b.Add(row, figures.Handover, round, ms(between.Quantile(.5)))
		b.AddWaits(row, between)
	}
	for _, r := range results {
		if len(r.Spans) == 0 && r.Waits.Count() > 0 { // the pings
			b.Add(row, figures.RoundTrip, round, ms(r.Waits.Quantile(.5)))
		}
		trouble(b, row, &r)
	}
}

// takeFar makes figures of how those that are near the server get on, in the time that the turns of the one that is far
// leave them.
func takeFar(b *figures.Book, row figures.Row, round int, j *work.Job, results []work.Result) {
	takeLoad(b, row, round, j, results)
	var all []turns.Turn
	for _, s := range spans(results) {
		t := turns.Turn{Who: s.Goroutine, Asked: time.Unix(0, s.Asked), Got: time.Unix(0, s.Got), Freed: time.Unix(0, s.Freed)}
		if s.Goroutine == len(results)-1 {
			t.RoundTrip = j.RoundTrip
		}
		all = append(all, t)
	}
	var p turns.Pace
	p.Add(all)
	if p.Near > 0 {
		b.Add(row, figures.NearRate, round, p.Rate())
	}
	if p.Turns > 0 {
		b.Add(row, figures.FarTurn, round, ms(p.Each()))
	}
}

// takeStill makes figures of goroutines that wait, and of locks that are kept.
func takeStill(b *figures.Book, row figures.Row, round int, j *work.Job, results []work.Result) {
	r := &results[0]
	b.Add(row, figures.Polls, round, float64(r.Requests)/r.Elapsed.Seconds())
	b.Add(row, figures.Goroutines, round, float64(r.Goroutines))
	b.Add(row, figures.Bytes, round, float64(r.Bytes)/float64(j.Goroutines))
	b.Add(row, figures.CPU, round, 100*r.CPU.Seconds()/r.Elapsed.Seconds())
	b.Add(row, figures.ServerCPU, round, 100*r.Server.Seconds()/r.Elapsed.Seconds())
	if j.Kind == work.Held && r.Kept < j.Goroutines {
		b.Trouble = append(b.Trouble, fmt.Sprintf("%s, %s: only %d of %d locks were still there", row.Case, row.Library, r.Kept, j.Goroutines))
	}
	trouble(b, row, r)
}

// trouble notes what should not have happened.
func trouble(b *figures.Book, row figures.Row, r *work.Result) {
	if r.Failures > 0 {
		b.Trouble = append(b.Trouble, fmt.Sprintf("%s, %s: %d calls failed, such as: %s", row.Case, row.Library, r.Failures, r.Failure))
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
