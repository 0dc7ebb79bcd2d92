package sim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// variable has the Config of a process that was started to simulate.
const variable = "REDIMUTEX_FAULTS_SIM"

// Main runs a simulation if this process was started for one, and then does not return.
//
// A simulation has a process of its own, for three reasons. Virtual time is to be had only in a
// test, and the testing package runs tests only for the whole of a process. The source of the UUIDs is
// one for all goroutines. And a simulation that hangs or panics is a result, and not our end.
func Main() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	var c Config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Args = os.Args[:1]
	flag.CommandLine = flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	runtime.GOMAXPROCS(1) // the fewer run at once, the less can happen in another order
	debug.SetGCPercent(400)
	testing.Main(regexp.MatchString, []testing.InternalTest{{Name: c.Name, F: func(t *testing.T) { simulate(t, c) }}}, nil, nil)
}

// simulate runs episodes until there were enough acquisitions, and writes reports, one a line.
func simulate(t *testing.T, c Config) {
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
		write(Report{Acquired: total.done(c)})
		if total.Episodes > 20 && total.done(c) == 0 {
			t.Fatal("nobody gets the lock")
		}
	}
	if c.Plant.From != "" && interpreter.planted == 0 {
		t.Fatal("the bug was not planted: no script has " + c.Plant.From)
	}
	write(*total)
}

// unfinished reports whether another episode is due. With Least the simulation ends by count or time, else
// by both.
func (r *Report) unfinished(c Config, spent time.Duration) bool {
	done := r.done(c)
	if c.Least > 0 {
		return done < c.Least || done < c.Want && spent < c.Time
	}
	return done < c.Want || spent < c.Time
}

// done counts what the Config wants many of.
func (r *Report) done(c Config) int {
	switch {
	case c.Lapse:
		return r.Lapsed
	case c.Endure:
		return r.Restarts
	}
	return r.Acquired
}

func write(r Report) {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", text)
}

// Run simulates in a process of its own, and returns its report. progress is told how much is done;
// it may be nil.
func Run(ctx context.Context, program string, c Config, progress func(done int)) (*Report, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), variable+"="+string(text), "GODEBUG=asyncpreemptoff=1")
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var last Report
	var said []string
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		if !bytes.HasPrefix(lines.Bytes(), []byte("{")) {
			said = append(said, lines.Text())
			continue
		}
		last = Report{}
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			trouble.WriteString(err.Error())
		} else if progress != nil {
			progress(last.done(c))
		}
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("the simulation %s with seed %d: %w\n%s\n%s", c.Name, c.Seed, err, strings.Join(said, "\n"), trouble.String())
	case last.Episodes == 0:
		return nil, errors.New("the simulation said nothing: " + trouble.String())
	}
	return &last, nil
}
