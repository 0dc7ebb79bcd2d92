package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redimutex/redimutex/bench/internal/entrants"
	"github.com/redimutex/redimutex/bench/internal/figures"
	"github.com/redimutex/redimutex/internal/lab/page"
	"github.com/redimutex/redimutex/internal/lab/picture"
)

// pages returns the pages of the repository that a run fills.
func pages(root string) []string {
	return []string{
		filepath.Join(root, "docs", "benchmark.md"), filepath.Join(root, "bench", "report.md"), filepath.Join(root, "README.md"),
	}
}

// fill puts the results into the pages, and the picture beside the first.
func (b *bench) fill(o *options, about []string, report string) error {
	var errs []error
	for i, text := range []string{b.brief(o, about), report, b.paragraph()} {
		errs = append(errs, page.Fill(pages(o.fill)[i], text))
	}
	return errors.Join(append(errs, b.draw(filepath.Join(o.fill, "docs", "benchmark-"+pictureName)))...)
}

func (b *bench) of(name, library string, m figures.Metric) string {
	return number(b.versions[0].book.Of(figures.Row{Case: name, Library: library}, m).Median)
}

// brief returns what a reader wants to know first: the goals with their spread, and the medians of the libraries side by side.
func (b *bench) brief(o *options, about []string) string {
	var text strings.Builder
	for _, line := range about {
		fmt.Fprintf(&text, "- %s\n", line)
	}
	fmt.Fprintf(&text, "\n%s\n", b.goals(o.chosen))
	columns := []struct {
		head, name string
		metric     figures.Metric
	}{
		{"1 goroutine: holds/s", "own1", figures.Rate},
		{"client CPU µs", "own1", figures.ClientTime},
		{"64 goroutines: holds/s", "own64", figures.Rate},
		{"client CPU µs", "own64", figures.ClientTime},
		{"32 goroutines, one key: p99 wait ms", "hold5", figures.P99},
		{"fairness", "hold5", figures.Fairness},
	}
	rows := [][]string{{""}}
	for _, c := range columns {
		rows[0] = append(rows[0], c.head)
	}
	for _, library := range entrants.All {
		row, measured := []string{library.Name}, false
		for _, c := range columns {
			figure := b.of(c.name, library.Name, c.metric)
			if figure == "–" {
				figure = ""
			}
			row, measured = append(row, figure), measured || figure != ""
		}
		if measured {
			rows = append(rows, row)
		}
	}
	text.WriteString(layOut(rows))
	return text.String()
}

// paragraph returns the text for the front page.
func (b *bench) paragraph() string {
	rate := func(name, library string) string { return b.of(name, library, figures.Rate) }
	wait := func(library string) string { return b.of("hold5", library, figures.P99) }
	return fmt.Sprintf(`On two cores, Redis included. One goroutine: %s locks a second, bare commands %s;
%s with `+"`WithLeaseReuse`"+`. 64 goroutines, a key each: %s; %s with `+"`WithMultiplexing`"+`.
32 goroutines of 4 processes, one key: a p99 wait of %s ms with `+"`WithQueue`"+`;
by polling %s ms, redsync %s ms, redislock %s ms, rueidislock %s ms
(the end of a round cuts longer waits off).
`, rate("own1", entrants.Redimutex), rate("own1", entrants.Bare), rate("own1", entrants.Reuse),
		rate("own64", entrants.Redimutex), rate("own64", entrants.Mux),
		wait(entrants.Queue), wait(entrants.Redimutex), wait(entrants.Redsync), wait(entrants.Redislock), wait(entrants.Rueidislock))
}

// The picture shows the last round of a case.
const (
	pictured    = "hold5"
	pictureName = "timeline.svg"
)

// draw shows one second of the libraries that differ most: who held the lock when.
func (b *bench) draw(path string) error {
	p := picture.Picture{
		Title: "Who held the lock when", Subtitle: "4 processes x 8 goroutines want one key, and hold it for 5 ms",
		To: time.Second, Thin: true,
	}
	const processes, each = 4, 8
	for _, library := range []string{entrants.Queue, entrants.Rueidislock, entrants.Redislock, entrants.Redsync} {
		spans := b.spans[library]
		if len(spans) == 0 {
			continue
		}
		lanes := make([]picture.Lane, processes*each)
		for i := range processes {
			lanes[i*each].Name = "process " + strconv.Itoa(i+1)
		}
		for _, s := range spans {
			bar := picture.Bar{From: time.Duration(s.Got - spans[0].Got), To: time.Duration(s.Released - spans[0].Got), Kind: picture.Held}
			if s.Goroutine < len(lanes) && bar.From < p.To {
				lanes[s.Goroutine].Bars = append(lanes[s.Goroutine].Bars, bar)
			}
		}
		p.Groups = append(p.Groups, picture.Group{Title: library, Lanes: lanes})
	}
	if len(p.Groups) == 0 {
		return nil
	}
	return p.Save(path)
}
