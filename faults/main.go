// Command faults shows what becomes of locks when clocks drift, servers hang, lie and forget, networks break and processes
// die. It fills a table with one row for each fault. A row has the figures of this run, for this library beside others. See
// README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/redimutex/redimutex/faults/internal/bounds"
	"github.com/redimutex/redimutex/faults/internal/election"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/faults/internal/failover"
	"github.com/redimutex/redimutex/faults/internal/far"
	"github.com/redimutex/redimutex/faults/internal/holds"
	"github.com/redimutex/redimutex/faults/internal/hungnode"
	"github.com/redimutex/redimutex/faults/internal/kinds"
	"github.com/redimutex/redimutex/faults/internal/planned"
	"github.com/redimutex/redimutex/faults/internal/servers"
	"github.com/redimutex/redimutex/faults/internal/sim"
	"github.com/redimutex/redimutex/faults/internal/suite"
	"github.com/redimutex/redimutex/internal/lab/page"
)

// rows returns all rows, in order.
func rows() []evidence.Row {
	return sorted(slices.Concat(
		sim.Rows(), bounds.Rows(), holds.Rows(), servers.Rows(), failover.Rows(), far.Rows(), planned.Rows(), hungnode.Rows(), kinds.Rows(),
		suite.Rows(), election.Rows(),
	))
}

// The exit statuses.
const (
	statusHeld   = 0
	statusBroken = 1 // something that must hold did not, or could not be shown
	statusUsage  = 2
)

func main() {
	// These do not return in a process that one of their rows has started.
	holds.Main()
	sim.Main()
	election.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], rows(), os.Stdout, os.Stderr))
}

// options are what the command line says.
type options struct {
	chosen    []evidence.Row
	time      time.Duration
	seed      uint64
	long      bool
	dir       string
	doc, full string // pages to fill, or nothing
	command   string // how to do the same again
}

func command(ctx context.Context, args []string, all []evidence.Row, out, progress io.Writer) int {
	o, done, err := parse(args, all, out, progress)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return statusHeld
	case err != nil:
		fmt.Fprintln(progress, "faults:", err)
		return statusUsage
	case done:
		return statusHeld
	}
	held, err := o.run(ctx, out, progress)
	switch {
	case err != nil:
		fmt.Fprintln(progress, "faults:", err)
		return statusBroken
	case !held:
		return statusBroken
	}
	return statusHeld
}

// parse reads the command line. done reports that it asked for no more than the list of the rows.
func parse(args []string, all []evidence.Row, out, progress io.Writer) (o options, done bool, err error) {
	f := flag.NewFlagSet("faults", flag.ContinueOnError)
	f.SetOutput(progress)
	f.Usage = func() {
		fmt.Fprint(progress, "usage: go run . [flags]\n\nRuns the rows of the table of faults, and exits with 1 if anything that must hold did not.\n\n")
		f.PrintDefaults()
	}
	which := f.String("rows", "", "run only these rows, by number or name or how a name begins: 1,4-6,sim (default all)")
	f.DurationVar(&o.time, "time", 0, "about how long all of it may take, such as 30m (default what the rows need)")
	f.Uint64Var(&o.seed, "seed", 0, "what the faults are drawn from; the same seed draws the same ones (default one of today)")
	f.BoolVar(&o.long, "long", false, "all the repetitions of the table, half an hour, instead of a few minutes")
	f.StringVar(&o.dir, "out", "results", "the folder for the report and the pictures")
	f.StringVar(&o.doc, "doc", "", "a page between whose markers a short table is put, such as ../docs/evidence.md")
	f.StringVar(&o.full, "report", "", "a page between whose markers the whole table is put, such as report.md")
	list := f.Bool("list", false, "list the rows, and run none")
	if err := f.Parse(args); err != nil {
		return o, false, err
	}
	switch {
	case f.NArg() > 0:
		return o, false, fmt.Errorf("unexpected argument %q; go run . -h tells what there is", f.Arg(0))
	case o.time < 0:
		return o, false, fmt.Errorf("-time %v: has to be more than 0", o.time)
	}
	if o.chosen, err = choose(*which, all); err != nil {
		return o, false, err
	}
	if *list {
		for _, r := range o.chosen {
			fmt.Fprintf(out, "%2d  %-14s %s: %s\n", r.ID, r.Name, r.Fault, r.Must)
		}
		return o, true, nil
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano()) % 1e9
	}
	if err := page.Check(o.doc, o.full); err != nil {
		return o, false, err
	}
	o.command = "go run ."
	f.Visit(func(g *flag.Flag) {
		switch g.Name {
		case "rows", "time":
			o.command += fmt.Sprintf(" -%s %s", g.Name, g.Value)
		case "long":
			o.command += " -long"
		}
	})
	o.command += fmt.Sprintf(" -seed %d", o.seed)
	return o, false, nil
}

// run runs the chosen rows one after the other, and writes the report. held says whether all rows held.
func (o *options) run(ctx context.Context, out, progress io.Writer) (held bool, err error) {
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return false, err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return false, err
	}
	r := &report{options: o, began: time.Now(), machine: about()}
	p := startMeter(progress, o.plan())
	for _, row := range o.chosen {
		p.begin(row)
		r.outcomes = append(r.outcomes, o.runRow(ctx, row, p))
		p.end(r.outcomes[len(r.outcomes)-1])
		if ctx.Err() != nil {
			r.print(out)
			return false, fmt.Errorf("interrupted at row %d (%s)", row.ID, row.Name)
		}
	}
	r.took = time.Since(r.began)
	r.print(out)
	if err := r.save(); err != nil {
		return false, err
	}
	fmt.Fprintf(progress, "The report is %s.\n", filepath.Join(o.dir, reportName))
	return r.held(), nil
}
