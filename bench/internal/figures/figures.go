// Package figures keeps what was measured, and judges it.
package figures

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/redimutex/redimutex/bench/internal/work"
	"github.com/redimutex/redimutex/internal/lab/stats"
)

// A Metric is something that is measured, with its unit.
type Metric string

const (
	Rate       Metric = "holds/s"
	P50        Metric = "p50 wait ms"
	P99        Metric = "p99 wait ms"
	Pair       Metric = "p50 pair ms"
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
	RoundTrip  Metric = "round trip p50 ms"
	NearRate   Metric = "near holds/s in the time left"
	FarTurn    Metric = "a far turn ms"
)

// A Figure is one measurement.
type Figure struct {
	Case, Library string
	Metric        Metric
	Round         int
	Value         float64
}

// A Book is all that was measured.
type Book struct {
	Figures []Figure
	Waits   map[Row]stats.Histogram
	Spans   map[Row][]work.Span // of the last round
	Trouble []string            // what went wrong, in sentences
}

// A Row is one library in one case.
type Row struct{ Case, Library string }

// NewBook returns an empty one.
func NewBook() *Book {
	return &Book{Waits: make(map[Row]stats.Histogram), Spans: make(map[Row][]work.Span)}
}

// Add adds a figure.
func (b *Book) Add(r Row, m Metric, round int, value float64) {
	b.Figures = append(b.Figures, Figure{r.Case, r.Library, m, round, value})
}

// AddWaits adds what one round has seen.
func (b *Book) AddWaits(r Row, h stats.Histogram) {
	if b.Waits[r] == nil {
		b.Waits[r] = make(stats.Histogram)
	}
	b.Waits[r].Merge(h)
}

// Rounds returns the values of a metric, by round.
func (b *Book) Rounds(r Row, m Metric) map[int]float64 {
	values := make(map[int]float64)
	for _, f := range b.Figures {
		if f.Case == r.Case && f.Library == r.Library && f.Metric == m {
			values[f.Round] = f.Value
		}
	}
	return values
}

// A Summary is several rounds in short.
type Summary struct {
	Median, Least, Most float64
	Rounds              int
}

// Of summarizes the rounds of a metric.
func (b *Book) Of(r Row, m Metric) Summary { return summarize(b.Rounds(r, m)) }

func summarize(rounds map[int]float64) Summary {
	all := slices.Sorted(maps.Values(rounds))
	n := len(all)
	if n == 0 {
		return Summary{Median: math.NaN(), Least: math.NaN(), Most: math.NaN()}
	}
	return Summary{(all[(n-1)/2] + all[n/2]) / 2, all[0], all[n-1], n}
}

// Libraries returns who was measured in a case, in the order of names, then those that have none there.
func (b *Book) Libraries(name string, order []string) []string {
	seen := make(map[string]bool)
	for _, f := range b.Figures {
		if f.Case == name {
			seen[f.Library] = true
		}
	}
	rank := func(library string) int {
		if i := slices.Index(order, library); i >= 0 {
			return i
		}
		return len(order)
	}
	return slices.SortedFunc(maps.Keys(seen), func(x, y string) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x, y))
	})
}
