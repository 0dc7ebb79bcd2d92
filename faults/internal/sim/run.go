package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redimutex/redimutex/internal/lab/crew"
)

// role is the name of the processes that simulate.
const role = "simulation"

// Main runs a simulation if this process was started for one, and then does not return.
//
// A simulation has a process of its own, for three reasons. Only a test has virtual time, and the testing package takes the
// whole process for its tests. All goroutines of a process share one source of UUIDs. And a simulation that hangs or panics is
// a result: it must not end this process.
func Main() {
	crew.Main(role, func(p *crew.Post) error {
		var c Config
		if !p.Hear(&c) {
			return errors.New("there is no Config")
		}
		os.Args = os.Args[:1]
		flag.CommandLine = flag.NewFlagSet(os.Args[0], flag.ExitOnError)
		runtime.GOMAXPROCS(1) // with one goroutine at a time, less can happen in another order
		debug.SetGCPercent(400)
		testing.Main(regexp.MatchString, []testing.InternalTest{{Name: c.Name, F: func(t *testing.T) { simulate(t, c, p) }}}, nil, nil)
		return nil
	})
}

// simulate runs episodes as long as total is unfinished, and reports.
func simulate(t *testing.T, c Config, p *crew.Post) {
	interpreter.plant = c.Plant
	began := time.Now()
	total := new(Report)
	for i := uint64(0); total.unfinished(c, time.Since(began)); i++ {
		var r *Report
		once := c
		once.Trace = c.Trace && i == 0
		synctest.Test(t, func(*testing.T) {
			switch {
			case c.Lapse:
				r = lapse(once, c.Seed+i)
			case c.Endure:
				r = endure(once, c.Seed+i)
			default:
				r = episode(once, c.Seed+i)
			}
		})
		total.add(r)
		total.Real = time.Since(began)
		p.Say(Report{Acquired: total.done(c)})
		if total.Episodes > 20 && total.done(c) == 0 {
			t.Fatal("nobody gets the lock")
		}
	}
	for bug := &c.Plant; bug != nil && bug.From != ""; bug = bug.And {
		if !interpreter.planted[bug.From] {
			t.Fatal("the bug was not planted: no script has " + bug.From)
		}
	}
	p.Say(*total)
}

// unfinished reports whether another episode is due. With Least, the simulation ends when it has Want, or when it has Least
// and Time is over. Otherwise it ends when it has Want and Time is over.
func (r *Report) unfinished(c Config, spent time.Duration) bool {
	done := r.done(c)
	if c.Least > 0 {
		return done < c.Least || done < c.Want && spent < c.Time
	}
	return done < c.Want || spent < c.Time
}

// done returns the count that Want of the Config is about.
func (r *Report) done(c Config) int {
	switch {
	case c.Lapse:
		return r.Lapsed
	case c.Endure:
		return r.Restarts
	}
	return r.Acquired
}

// Run simulates in a process of its own, and returns its report. It calls progress with how much is done; progress may be nil.
func Run(ctx context.Context, program string, c Config, progress func(done int)) (*Report, error) {
	h, err := crew.HireFrom[Report](program, role, "GODEBUG=asyncpreemptoff=1")
	if err != nil {
		return nil, err
	}
	defer h.Close(0)
	stop := context.AfterFunc(ctx, func() { h.Kill() }) //nolint:errcheck // it may have ended
	defer stop()
	if err := h.Tell(c); err != nil {
		return nil, err
	}
	var last Report
	for last = range h.Messages {
		if progress != nil {
			progress(last.done(c))
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case h.Err() != nil:
		return nil, fmt.Errorf("the simulation %s with seed %d: %w", c.Name, c.Seed, h.Err())
	case last.Episodes == 0:
		return nil, fmt.Errorf("the simulation said nothing: %w", h.Trouble())
	}
	return &last, nil
}
