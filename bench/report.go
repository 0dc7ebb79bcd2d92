package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/redimutex/redimutex/bench/internal/entrants"
	"github.com/redimutex/redimutex/bench/internal/figures"
	"github.com/redimutex/redimutex/internal/lab/page"
)

// pages are filled by a run, if they are named.
type pages struct{ doc, full string }

// report prints the tables, and writes them and the pictures to dir, and the pages.
func report(b *figures.Book, chosen []trial, about []string, dir string, p pages, out io.Writer) error {
	var text bytes.Buffer
	for _, line := range about {
		fmt.Fprintln(&text, line)
	}
	fmt.Fprintf(&text, "\nFigures are medians of the rounds (least–most). The goals:\n\n%s", goalTable(b))
	for i := range chosen {
		fmt.Fprintf(&text, "\n%s: %s\n\n%s", chosen[i].name, chosen[i].title, caseTable(b, &chosen[i]))
	}
	if len(b.Trouble) > 0 {
		fmt.Fprintf(&text, "\nTrouble:\n\n- %s\n", strings.Join(b.Trouble, "\n- "))
	}
	if _, err := out.Write(text.Bytes()); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "report.md"), text.Bytes(), 0o644); err != nil {
		return err
	}
	if err := errors.Join(page.Fill(p.doc, brief(b, about)), page.Fill(p.full, text.String())); err != nil {
		return err
	}
	if err := b.WriteCSV(dir, goals); err != nil {
		return err
	}
	pictures, err := draw(b, dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nIn %s: report.md, figures.csv, goals.csv, waits.csv, holds.csv%s\n", dir, strings.Join(append([]string{""}, pictures...), ", "))
	return nil
}

// goalTable has a line for each goal of which something was measured.
func goalTable(b *figures.Book) string {
	return goalRows(b, []string{"case", "figure", "goal", "measured", ""}, func(v figures.Verdict) []string {
		return []string{v.Wanted(), spread(v.Summary), v.Word()}
	})
}

func goalRows(b *figures.Book, head []string, cells func(figures.Verdict) []string) string {
	rows := [][]string{head}
	name := ""
	for _, v := range b.Judge(goals) {
		if v.Case != "" {
			name = v.Case
		}
		if v.Rounds == 0 {
			continue
		}
		rows = append(rows, append([]string{name, v.What}, cells(v)...))
		name = ""
	}
	return layOut(rows)
}

// brief is what a reader wants to know first: the goals with their spread, and medians of the libraries side by side.
func brief(b *figures.Book, about []string) string {
	var text strings.Builder
	for _, line := range about {
		fmt.Fprintf(&text, "- %s\n", line)
	}
	fmt.Fprintf(&text, "\n%s\n", goalRows(b, []string{"case", "figure", "measured", "goal"}, func(v figures.Verdict) []string {
		if v.Met() {
			return []string{spread(v.Summary), v.Wanted()}
		}
		return []string{spread(v.Summary), v.Wanted() + ", missed"}
	}))
	columns := []struct {
		head, name string
		metric     figures.Metric
	}{
		{"1 goroutine: holds/s", "own1", figures.Rate},
		{"64 goroutines: holds/s", "own64", figures.Rate},
		{"32 goroutines, one key: p99 wait ms", "hold5", figures.P99},
		{"their fairness", "hold5", figures.Fairness},
	}
	rows := [][]string{{""}}
	for _, c := range columns {
		rows[0] = append(rows[0], c.head)
	}
	for _, library := range order() {
		row, measured := []string{library}, false
		for _, c := range columns {
			s := b.Of(figures.Row{Case: c.name, Library: library}, c.metric)
			if s.Rounds == 0 {
				row = append(row, "")
			} else {
				row, measured = append(row, median(s)), true
			}
		}
		if measured {
			rows = append(rows, row)
		}
	}
	text.WriteString(layOut(rows))
	return text.String()
}

func median(s figures.Summary) string { return number(s.Median) }

// caseTable has a line for each library.
func caseTable(b *figures.Book, t *trial) string {
	head := []string{""}
	for _, m := range t.shown {
		head = append(head, string(m))
	}
	rows := [][]string{head}
	for _, library := range b.Libraries(t.name, order()) {
		row := []string{library}
		for _, m := range t.shown {
			row = append(row, spread(b.Of(figures.Row{Case: t.name, Library: library}, m)))
		}
		rows = append(rows, row)
	}
	return layOut(rows)
}

// order is that of the libraries in tables and pictures.
func order() []string {
	var names []string
	for _, l := range entrants.All {
		names = append(names, l.Name)
	}
	return names
}

// spread shows a median, and from where to where the rounds go, if that shows.
func spread(s figures.Summary) string {
	switch s.Rounds {
	case 0:
		return "–"
	case 1:
		return number(s.Median)
	}
	median, least, most := number(s.Median), number(s.Least), number(s.Most)
	if median == least && median == most {
		return median
	}
	return fmt.Sprintf("%s (%s–%s)", median, least, most)
}

// number shows three digits, or all of a whole number.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a >= 100 || v == math.Trunc(v):
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// thousands puts a comma between every three digits.
func thousands(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// layOut makes a table that is good to read on a terminal and is Markdown as well.
func layOut(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for n, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(&text, "| %s%s ", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		text.WriteString("|\n")
		if n == 0 {
			for _, w := range widths {
				text.WriteString("|" + strings.Repeat("-", w+2))
			}
			text.WriteString("|\n")
		}
	}
	return text.String()
}
