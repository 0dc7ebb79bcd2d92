package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const demoHelp = `Usage: redimutex demo [-redis URL] [-svg FILE]

Shows what the lock is for, on real processes: %d workers with %d goroutines each raise one counter
in a file, by reading it, thinking for a moment, and writing it back.

  Round 1  without a lock: updates get lost.
  Round 2  with the lock: none is.
  Round 3  with the lock, and a process that holds it is killed halfway through an update:
           the lock comes free by itself when its TTL of %s is over, and nothing is lost.

It takes about ten seconds, and needs nothing installed.

  -redis URL   use this server instead of one inside the demo; repeat it for Redlock.
               -redis @FILE reads URLs from FILE. The demo has a key of its own, and deletes it.
  -svg FILE    write the picture of who held the lock when to FILE

The exit status is 0 if no update was lost under the lock, 1 if one was or a round could not be
completed, 2 for wrong usage, 69 if the server can't be used, and 128 + the number of the signal
that ended it.
`

const (
	demoWorkers    = 4
	demoGoroutines = 4
	demoUpdates    = 6 // of each goroutine in a round
	demoTTL        = time.Second

	// The parts of the demo are bounded, so that all of it is over in 20 s on any machine.
	demoLimit   = 18 * time.Second
	serverLimit = 2 * time.Second
)

// A demo is what was asked for on the command line.
type demo struct {
	urls urls
	svg  string
	t    terminal
}

func demoCommand(args []string, t terminal) int {
	if len(args) == 1 && args[0] == workerArgument {
		return demoWorker(t.in, t.out)
	}
	d := &demo{t: t}
	if err := d.parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(t.out, demoHelp, demoWorkers, demoGoroutines, inSeconds(demoTTL))
			return exitOK
		}
		return usageError(t, "demo", err)
	}
	ctx, stop := untilSignal(context.Background())
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, demoLimit, errors.New("it took too long"))
	defer cancel()
	return d.report(ctx, d.run(ctx))
}

func (d *demo) parse(args []string) error {
	f := newFlags("demo")
	f.Var(&d.urls, "redis", "")
	f.StringVar(&d.svg, "svg", "", "")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if len(d.urls) > 0 {
		if _, err := findServers(d.urls); err != nil {
			return err
		}
	}
	if d.svg != "" {
		// Better now than after ten seconds.
		if info, err := os.Stat(filepath.Dir(d.svg)); err != nil || !info.IsDir() {
			return fmt.Errorf("there is no folder for the picture %s", d.svg)
		}
	}
	return nil
}

// run plays the rounds. Its errors are for report.
func (d *demo) run(ctx context.Context) error {
	s, err := openDemoServer(ctx, d.urls)
	if err != nil {
		return err
	}
	defer s.close()
	folder, err := os.MkdirTemp("", "redimutex-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	c, err := openCounter(filepath.Join(folder, "counter"))
	if err != nil {
		return err
	}
	defer c.close()
	team, err := startCrew(demoJob{URLs: s.urls, Key: s.key, File: c.file.Name()}, d.t.err)
	if err != nil {
		return err
	}
	defer team.close()

	fmt.Fprintf(d.t.out, "%d processes with %d goroutines each raise one counter in a file: they read it,\n"+
		"think for a moment, and write it back.\n\nThe lock is the key %s on %s.\n", demoWorkers, demoGoroutines, s.key, s.name)
	var results []*result
	for i, r := range demoRounds {
		fmt.Fprintf(d.t.out, "\n%d. %s\n\n", i+1, r.title)
		res, err := team.play(ctx, r, c, newProgress(d.t.out, r.title))
		if err != nil {
			return err
		}
		results = append(results, res)
		if res.failed() {
			return verdict(results)
		}
		fmt.Fprint(d.t.out, res.words(), "\n", res.timeline.text(styleOf(d.t.out)))
	}
	if d.svg != "" {
		if err := os.WriteFile(d.svg, picture(results), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(d.t.out, "\nThe picture is in %s.\n", d.svg)
	}
	return verdict(results)
}

// errLostUpdates is the failure that the demo exists to rule out.
var errLostUpdates = errors.New("updates were lost under the lock")

// verdict says what all rounds together amount to.
func verdict(results []*result) error {
	for _, r := range results {
		if r.lock && r.lost() > 0 {
			return errLostUpdates
		}
	}
	for _, r := range results {
		if err := r.incomplete(); err != nil {
			return err
		}
	}
	return nil
}

// report turns the outcome into words and the exit status.
func (d *demo) report(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, errLostUpdates) {
		err = cause
	}
	fmt.Fprintf(d.t.err, "redimutex demo: %v\n", err)
	var sig signalled
	var server *serverError
	switch {
	case errors.As(err, &sig):
		return 128 + int(sig)
	case errors.As(err, &server):
		return exitUnavailable
	}
	return exitFailure
}

// A signalled error says which signal ended the demo.
type signalled syscall.Signal

func (s signalled) Error() string { return "ended by " + syscall.Signal(s).String() }

// untilSignal returns a context that a signal to end ends.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case s := <-signals:
			cancel(signalled(s.(syscall.Signal))) //nolint:forcetypeassert // the ones that we asked for
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// count puts a number before a noun: 1 update, 2 updates.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", n, noun))
}
