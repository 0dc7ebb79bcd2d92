package figures

import (
	"cmp"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// WriteCSV writes all that was measured to files in dir.
func (b *Book) WriteCSV(dir string, goals []Goal) error {
	return errors.Join(
		write(dir, "figures.csv", b.figureRows()),
		write(dir, "goals.csv", b.goalRows(goals)),
		write(dir, "waits.csv", b.waitRows()),
		write(dir, "holds.csv", b.holdRows()),
	)
}

func write(dir, name string, rows [][]string) error {
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	return errors.Join(w.WriteAll(rows), f.Close())
}

func float(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

func milliseconds(ns int64) string { return float(float64(ns) / float64(time.Millisecond)) }

func (b *Book) figureRows() [][]string {
	rows := [][]string{{"case", "library", "metric", "round", "value"}}
	for _, f := range b.Figures {
		rows = append(rows, []string{f.Case, f.Library, string(f.Metric), strconv.Itoa(f.Round + 1), float(f.Value)})
	}
	return rows
}

func (b *Book) goalRows(goals []Goal) [][]string {
	rows := [][]string{{"case", "figure", "goal", "median", "least", "most", "rounds", "verdict"}}
	name := ""
	for _, v := range b.Judge(goals) {
		name = cmp.Or(v.Case, name)
		rows = append(rows, []string{
			name, v.What, v.Wanted(), float(v.Median), float(v.Summary.Least), float(v.Most), strconv.Itoa(v.Rounds), v.Word(),
		})
	}
	return rows
}

// waitRows are the shares of the waits that took no longer, for all rounds together.
func (b *Book) waitRows() [][]string {
	rows := [][]string{{"case", "library", "wait_ms", "share"}}
	for _, r := range sorted(b.Waits) {
		b.Waits[r].Shares(func(d time.Duration, share float64) {
			rows = append(rows, []string{r.Case, r.Library, milliseconds(int64(d)), float(share)})
		})
	}
	return rows
}

// holdRows are the holds of the last round, from its first one on.
func (b *Book) holdRows() [][]string {
	rows := [][]string{{"case", "library", "goroutine", "asked_ms", "got_ms", "released_ms"}}
	for _, r := range sorted(b.Spans) {
		for _, s := range b.Spans[r] {
			zero := b.Spans[r][0].Got
			rows = append(rows, []string{
				r.Case, r.Library, strconv.Itoa(s.Goroutine + 1),
				milliseconds(s.Asked - zero), milliseconds(s.Got - zero), milliseconds(s.Released - zero),
			})
		}
	}
	return rows
}

func sorted[V any](m map[Row]V) []Row {
	var rows []Row
	for r := range m {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(x, y Row) int {
		return cmp.Or(cmp.Compare(x.Case, y.Case), cmp.Compare(x.Library, y.Library))
	})
	return rows
}
