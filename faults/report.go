package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/page"
	"github.com/redimutex/redimutex/internal/machine"
	"github.com/redimutex/redimutex/internal/redistest"
)

const reportName = "report.md"

// A report has the outcomes of all rows.
type report struct {
	*options
	began    time.Time
	took     time.Duration
	machine  []string
	outcomes []outcome
}

func (r *report) held() bool {
	return !slices.ContainsFunc(r.outcomes, func(o outcome) bool { return !o.held() && !o.skipped() })
}

func (o *outcome) verdict() string {
	switch {
	case o.skipped():
		return "skipped"
	case o.err != nil:
		return "NOT SHOWN"
	case !o.OK():
		return "BROKEN"
	}
	return "held"
}

// sides returns the figures that are judged, and those that are only for comparison.
func (o *outcome) sides() (ours, others []evidence.Figure) {
	for _, f := range o.Figures {
		if f.NotJudged {
			others = append(others, f)
		} else {
			ours = append(ours, f)
		}
	}
	return ours, others
}

// print writes the table for people.
func (r *report) print(w io.Writer) {
	fmt.Fprintln(w)
	for _, o := range r.outcomes {
		fmt.Fprintf(w, "%2d  %-9s  %s | %s\n", o.ID, o.verdict(), o.Fault, o.Must)
		for _, f := range o.Figures {
			fmt.Fprintf(w, "               %s\n", words(f))
		}
		for _, n := range o.Notes {
			if !o.held() { // an interrupted run writes no report
				fmt.Fprintf(w, "               %s\n", n)
			}
		}
		if o.err != nil {
			fmt.Fprintf(w, "               %s\n", strings.ReplaceAll(o.err.Error(), "\n", "\n               "))
		}
	}
	held := 0
	for _, o := range r.outcomes {
		if o.held() {
			held++
		}
	}
	fmt.Fprintf(w, "\n%d of %d rows held, in %v. Again with: %s\n", held, len(r.outcomes), r.took.Round(time.Second), r.command)
}

// words returns a figure in words, with numbers that are easy to read.
func words(f evidence.Figure) string {
	s := fmt.Sprintf("%s: %s of %s", f.Library, thousands(f.Held), thousands(f.Tried))
	if f.Worst != "" {
		s += ", " + f.Worst
	}
	return s
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// save writes the report, and fills the page if there is one to fill.
func (r *report) save() error {
	if err := os.WriteFile(filepath.Join(r.dir, reportName), []byte(r.markdown()), 0o644); err != nil {
		return err
	}
	if err := page.Fill(r.doc, r.short()); err != nil {
		return err
	}
	return page.Fill(r.full, r.table())
}

func (r *report) markdown() string {
	var b strings.Builder
	b.WriteString("# Faults\n\n")
	b.WriteString(r.table())
	for _, o := range r.outcomes {
		if len(o.Notes) == 0 && len(o.Files) == 0 && o.err == nil {
			continue
		}
		fmt.Fprintf(&b, "\n## %d. %s: %s\n\n", o.ID, o.Name, o.Fault)
		if o.err != nil {
			fmt.Fprintf(&b, "It could not be shown:\n\n```\n%s\n```\n\n", o.err)
		}
		for _, n := range o.Notes {
			fmt.Fprintf(&b, "- %s\n", n)
		}
		for _, f := range o.Files {
			path := o.Name + "/" + filepath.ToSlash(f)
			if strings.HasSuffix(f, ".svg") || strings.HasSuffix(f, ".png") {
				fmt.Fprintf(&b, "\n![%s](%s)\n", o.Fault, path)
			} else {
				fmt.Fprintf(&b, "\n[%s](%s)\n", filepath.Base(f), path)
			}
		}
	}
	return b.String()
}

// head returns what a reader has to know of the run.
func (r *report) head() string {
	var b strings.Builder
	version := "the short version"
	if r.long {
		version = "the long version"
	}
	fmt.Fprintf(&b, "Run on %s, %s in %v, seed %d:\n`%s`\n\n", r.began.UTC().Format("2 January 2006, 15:04 UTC"),
		version, r.took.Round(time.Second), r.seed, r.command)
	for _, line := range r.machine {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	return b.String()
}

// table returns a table with every figure of the rows and its worst case.
func (r *report) table() string {
	var b strings.Builder
	b.WriteString(r.head())
	b.WriteString("\n| # | fault | must hold | redimutex: held of tried | others, not judged | |\n|---|---|---|---|---|---|\n")
	for _, o := range r.outcomes {
		ours, others := o.sides()
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s |\n", o.ID, cell(o.Fault), cell(o.Must), cells(ours), cells(others), o.verdict())
	}
	return b.String()
}

// short returns a table with one figure of each library for a row.
func (r *report) short() string {
	var b strings.Builder
	b.WriteString(r.head())
	b.WriteString("\n| # | fault | must hold | redimutex | not judged |\n|---|---|---|---|---|\n")
	for _, o := range r.outcomes {
		ours, others := o.sides()
		figure := cells(sums(ours))
		if !o.held() {
			figure = o.verdict() + ": " + figure
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", o.ID, cell(o.Fault), cell(o.Must), figure, strings.TrimPrefix(cells(sums(others)), "-"))
	}
	return b.String()
}

// sums adds up the figures of a library, whatever was switched on, and leaves out the worst cases. Figures of this library
// that are not judged stay apart: for them it matters what was switched on.
func sums(figures []evidence.Figure) []evidence.Figure {
	var all []evidence.Figure
	for _, f := range figures {
		sum := evidence.Figure{Library: f.Library, Held: f.Held, Tried: f.Tried, NotJudged: f.NotJudged}
		if name, _, _ := strings.Cut(strings.ReplaceAll(f.Library, ",", " "), " "); name != evidence.Ours || !f.NotJudged {
			sum.Library = name
		}
		i := slices.IndexFunc(all, func(a evidence.Figure) bool { return a.Library == sum.Library })
		if i < 0 {
			all = append(all, sum)
		} else {
			all[i].Held += f.Held
			all[i].Tried += f.Tried
		}
	}
	return all
}

func cells(figures []evidence.Figure) string {
	if len(figures) == 0 {
		return "-"
	}
	var all []string
	for _, f := range figures {
		all = append(all, cell(strings.TrimPrefix(words(f), evidence.Ours+": ")))
	}
	return strings.Join(all, "<br>")
}

func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", ">", "&gt;").Replace(s)
}

// about says in a few lines on which machine, and with what software, the figures were taken.
func about() []string {
	return []string{machine.Describe(), machine.Go() + "; " + server(), machine.Libraries(
		"github.com/gomodule/redigo", "github.com/go-redsync/redsync/v4", "github.com/bsm/redislock",
		"github.com/redis/go-redis/v9", "github.com/anishathalye/porcupine",
	)}
}

// server names the server that the rows use.
func server() string {
	for _, b := range redistest.Builds() {
		return b.String()
	}
	return "no server on the PATH"
}
