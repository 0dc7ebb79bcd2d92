// Command bench compares redimutex with the libraries that would be used instead, and with a bare
// redigo loop: on one machine, in one run, in short rounds that take turns. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redimutex/redimutex/bench/internal/figures"
	"github.com/redimutex/redimutex/bench/internal/work"
	"github.com/redimutex/redimutex/internal/lab/page"
	"github.com/redimutex/redimutex/internal/machine"
	"github.com/redimutex/redimutex/internal/redistest"
)

func main() {
	work.Main() // returns only where this process is no worker
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			os.Exit(0)
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(progress)
	quick := f.Bool("quick", false, "three minutes instead of twenty; the figures scatter more")
	names := f.String("case", "", "run only the cases with these names, or that begin with them, separated by commas:\n"+strings.Join(caseNames(), ", "))
	dir := f.String("out", "results", "the folder for the tables (Markdown, CSV) and pictures (SVG, PNG)")
	var p pages
	f.StringVar(&p.doc, "doc", "", "a page between whose markers the medians are put, such as ../docs/benchmark.md")
	f.StringVar(&p.full, "report", "", "a page between whose markers the whole report is put, such as report.md")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := page.Check(p.doc, p.full); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	chosen, err := choose(*names)
	if err != nil {
		return err
	}
	paceOf := func(t *trial) pace { return t.full }
	if *quick {
		paceOf = func(t *trial) pace { return t.quick }
	}
	return compare(ctx, chosen, paceOf, *dir, p, out, progress)
}

func caseNames() []string {
	var all []string
	for _, t := range trials {
		all = append(all, t.name)
	}
	return all
}

// choose returns the trials that names ask for, all if it is empty. A name is a trial's, or how
// those of several begin.
func choose(names string) ([]trial, error) {
	wanted := func(t trial) bool {
		for name := range strings.SplitSeq(names, ",") {
			name = strings.TrimSpace(name)
			if t.name == name || !slices.Contains(caseNames(), name) && strings.HasPrefix(t.name, name) {
				return true
			}
		}
		return false
	}
	var chosen []trial
	for _, t := range trials {
		if wanted(t) {
			chosen = append(chosen, t)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("there is no case %q; there are %s", names, strings.Join(caseNames(), ", "))
	}
	return chosen, nil
}

// compare runs the trials and reports.
func compare(ctx context.Context, chosen []trial, paceOf func(*trial) pace, dir string, p pages, out, progress io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var about []string
	b := &bench{book: figures.NewBook(), out: progress, pace: paceOf}
	var failed error
	if err := redistest.Stage(ctx, func(t testing.TB) {
		b.t, b.servers = t, []*redistest.Server{redistest.Real(t)}
		about = describe(b.servers[0])
		failed = b.run(ctx, chosen)
	}); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	about[0] += ", " + machine.Load() + " at the end"
	if err := report(b.book, chosen, about, dir, p, out); err != nil {
		return err
	}
	if n := len(b.book.Trouble); n > 0 {
		return fmt.Errorf("there was trouble in %d places, see above", n)
	}
	return nil
}
