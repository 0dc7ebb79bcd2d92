// Command bench compares redimutex with the libraries that would be used instead, and with bare commands. It can also compare
// two versions of redimutex. All run on one machine, in one run, and take turns in short rounds. See README.md.
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
	"time"

	"github.com/redimutex/redimutex/bench/internal/work"
	"github.com/redimutex/redimutex/internal/lab/page"
	"github.com/redimutex/redimutex/internal/machine"
	"github.com/redimutex/redimutex/internal/redistest"
)

func main() {
	work.Main() // returns only if this process is no worker
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

// options are what the caller asks for.
type options struct {
	chosen []trial
	dir    string // where the results go
	fill   string // the root of the repository whose pages are filled; may be empty
	before string // the commit to compare with; may be empty
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(progress)
	var o options
	quick := f.Bool("quick", false, "a quarter of the time; the figures scatter more")
	names := f.String("case", "", "run only the cases with these names, or that begin with them, separated by commas:\n"+strings.Join(caseNames(), ", "))
	f.StringVar(&o.before, "before", "", "compare the library of this commit with that of the working tree")
	f.StringVar(&o.dir, "out", "results", "the folder for the report and the figures")
	f.StringVar(&o.fill, "fill", "", "the root of the repository, such as .., to put what was found into its pages")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.fill != "" && (o.before != "" || *names != "") {
		return errors.New("-fill needs a run of all cases, of one version")
	}
	if o.fill != "" {
		if err := page.Check(pages(o.fill)...); err != nil {
			return err
		}
	}
	var err error
	if o.chosen, err = choose(*names, o.before != ""); err != nil {
		return err
	}
	if *quick {
		for i := range o.chosen {
			o.chosen[i].hurry()
		}
	}
	return compare(ctx, &o, out, progress)
}

// hurry cuts the time to about a quarter. Held locks are renewed every 10 s, so their rounds can't be shorter.
func (t *trial) hurry() {
	t.rounds = max(1, t.rounds/3)
	if t.job.Kind != work.Held {
		t.warm, t.run = t.warm/2, max(t.run/2, 200*time.Millisecond)
	}
}

func caseNames() []string {
	var all []string
	for _, t := range trials {
		all = append(all, t.name)
	}
	return all
}

// choose returns the trials that names asks for. Each name is that of one trial, or a prefix of several. An empty names asks
// for all trials. In a comparison of two versions (paired) it asks for the trials that are part of one, and only libraries
// that a goal mentions take part.
func choose(names string, paired bool) ([]trial, error) {
	wanted := func(t trial) bool {
		if names == "" {
			return !paired || t.paired
		}
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
		if !wanted(t) {
			continue
		}
		if paired {
			t.who = slices.DeleteFunc(slices.Clone(t.who), func(who string) bool { return !t.judges(who) })
		}
		chosen = append(chosen, t)
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("there is no case %q; there are %s", names, strings.Join(caseNames(), ", "))
	}
	return chosen, nil
}

// judges reports whether a goal mentions the library.
func (t *trial) judges(library string) bool {
	for _, g := range t.goals {
		if g.Ours == library || slices.Contains(g.Over, library) {
			return true
		}
	}
	return false
}

// compare runs the trials and reports.
func compare(ctx context.Context, o *options, out, progress io.Writer) error {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	b := &bench{out: progress, spans: make(map[string][]work.Span)}
	programs, err := os.MkdirTemp("", "redimutex-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(programs) //nolint:errcheck // it is among the system's temporary files
	if b.versions, err = makeVersions(ctx, o.before, programs); err != nil {
		return err
	}
	var about []string
	var failed error
	if err := redistest.Stage(ctx, func(t testing.TB) {
		b.t, b.servers = t, []*redistest.Server{redistest.Real(t)}
		about = describe(b.servers[0])
		if o.before != "" {
			about = append(about, "Compared: before is "+o.before+", after is the working tree")
		}
		failed = b.run(ctx, o.chosen)
	}); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	about[0] += ", " + machine.Load() + " at the end"
	if err := b.report(o, about, out); err != nil {
		return err
	}
	if n := len(b.versions[0].book.Trouble); n > 0 {
		return fmt.Errorf("there was trouble in %d places, see above", n)
	}
	return nil
}
