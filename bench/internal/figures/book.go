// Package figures keeps what was measured, and judges it.
package figures

import (
	"encoding/csv"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
)

// A Metric is something that is measured, with its unit.
type Metric string

const (
	Rate       Metric = "holds/s"
	P50        Metric = "p50 wait ms"
	P99        Metric = "p99 wait ms"
	Writers    Metric = "writers' p99 ms"
	Pair       Metric = "p50 pair ms"
	Hold       Metric = "hold ms"
	Requests   Metric = "requests/hold"
	Fairness   Metric = "fewest/most"
	Allocs     Metric = "allocs/hold"
	Polls      Metric = "requests/s"
	Goroutines Metric = "extra goroutines"
	Bytes      Metric = "bytes each"
	CPU        Metric = "CPU % of a core"
	ServerCPU  Metric = "server CPU %"
	ClientTime Metric = "client CPU µs/hold"
	ServerTime Metric = "server CPU µs/hold"
	Handover   Metric = "hand-over p50 ms"
)

// More reports whether a higher figure is the better one.
func (m Metric) More() bool { return m == Rate || m == Fairness }

// A Row is one library in one case.
type Row struct{ Case, Library string }

// A Book is all that was measured: for each row and metric a figure for each round.
type Book struct {
	figures map[Row]map[Metric]map[int]float64
	Trouble []string // what went wrong, in sentences
}

// Add adds a figure, unless it is NaN: then nothing was measured.
func (b *Book) Add(r Row, m Metric, round int, value float64) {
	if math.IsNaN(value) {
		return
	}
	if b.figures == nil {
		b.figures = make(map[Row]map[Metric]map[int]float64)
	}
	if b.figures[r] == nil {
		b.figures[r] = make(map[Metric]map[int]float64)
	}
	if b.figures[r][m] == nil {
		b.figures[r][m] = make(map[int]float64)
	}
	b.figures[r][m][round] = value
}

// Measured reports whether there are figures of a row.
func (b *Book) Measured(r Row) bool { return len(b.figures[r]) > 0 }

// Of summarizes the rounds of a metric.
func (b *Book) Of(r Row, m Metric) Summary { return summarize(b.figures[r][m]) }

// best returns for each round the best figure of the libraries.
func (b *Book) best(name string, m Metric, libraries []string) map[int]float64 {
	best := make(map[int]float64)
	for _, library := range libraries {
		for round, v := range b.figures[Row{name, library}][m] {
			if was, ok := best[round]; !ok || (v > was) == m.More() {
				best[round] = v
			}
		}
	}
	return best
}

// A Summary summarizes the figures of several rounds.
type Summary struct {
	Median, Least, Most float64
	Rounds              int
}

func summarize(rounds map[int]float64) Summary {
	all := slices.Sorted(maps.Values(rounds))
	n := len(all)
	if n == 0 {
		return Summary{Median: math.NaN(), Least: math.NaN(), Most: math.NaN()}
	}
	return Summary{(all[(n-1)/2] + all[n/2]) / 2, all[0], all[n-1], n}
}

// WriteCSV writes every figure of every round, in the order of the cases and libraries.
func (b *Book) WriteCSV(to io.Writer, rows []Row) error {
	w := csv.NewWriter(to)
	lines := [][]string{{"case", "library", "metric", "round", "value"}}
	for _, r := range rows {
		for _, m := range slices.Sorted(maps.Keys(b.figures[r])) {
			rounds := b.figures[r][m]
			for _, round := range slices.Sorted(maps.Keys(rounds)) {
				value := strconv.FormatFloat(rounds[round], 'g', 6, 64)
				lines = append(lines, []string{r.Case, r.Library, string(m), strconv.Itoa(round + 1), value})
			}
		}
	}
	return errors.Join(w.WriteAll(lines), w.Error())
}
