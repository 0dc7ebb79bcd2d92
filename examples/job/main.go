// Command job is a scheduled job that four machines start at the same time of day, although only one should run it. Their
// clocks differ, as clocks do. The job is short, so the machine with the fastest clock has run it and unlocked before the next
// machine starts: a plain lock lets them run it again, one after the other. WithMinHold keeps the lock for longer than the
// clocks differ, and for less than the interval of the schedule.
//
// The machines are goroutines with a Client each, and their clocks go wrong on purpose. Run it, without
// anything installed, by
//
//	go run ./job
//
// or with REDIS_URL set to use a Redis of yours. Look at the runs for each tick of the schedule. The
// exit status is 1 if the job ran more than once, or not at all, in spite of WithMinHold.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/examples/internal/backend"
)

const (
	ticks    = 4
	interval = time.Second
	minHold  = 700 * time.Millisecond // more than the clocks differ, less than the interval
	work     = 10 * time.Millisecond
)

// key is different in each run, so that several runs can share a server.
var key = "example:job:nightly:" + rand.Text()

// A machine runs the job when its own clock says so.
type machine struct {
	name string
	slow time.Duration // how far its clock is behind
}

var machines = []machine{
	{"a", 0},
	{"b", 60 * time.Millisecond},
	{"c", 130 * time.Millisecond},
	{"d", 200 * time.Millisecond},
}

func main() { backend.Main("job", backend.WithPool(run)) }

// run runs the schedule without a minimum hold, then with it.
func run(ctx context.Context, out io.Writer, pool *redis.Pool) error {
	fmt.Fprintf(out, "%d machines run a job of %v every %v. Their clocks differ by up to %v.\n",
		len(machines), work, interval, machines[len(machines)-1].slow)
	fmt.Fprintln(out, "\nTryDo alone:")
	plain, err := schedule(ctx, pool)
	if err != nil {
		return err
	}
	report(out, plain)
	fmt.Fprintf(out, "\nTryDo and WithMinHold(%v):\n", minHold)
	held, err := schedule(ctx, pool, redimutex.WithMinHold(minHold))
	if err != nil {
		return err
	}
	report(out, held)
	for _, names := range held {
		if len(names) != 1 {
			return errors.New("the job did not run exactly once, although the lock had a minimum hold")
		}
	}
	return nil
}

func report(out io.Writer, runs [][]string) {
	for tick, names := range runs {
		words := "once, by "
		if len(names) != 1 {
			words = fmt.Sprintf("%d times, by ", len(names))
		}
		fmt.Fprintf(out, "  tick %d: %s%s\n", tick+1, words, strings.Join(names, ", "))
	}
}

// schedule returns which machines ran the job at each tick.
func schedule(ctx context.Context, pool *redis.Pool, opts ...redimutex.Option) ([][]string, error) {
	runs := make([][]string, ticks)
	failures := make([]error, len(machines))
	var mu sync.Mutex // of runs
	var all sync.WaitGroup
	first := time.Now().Add(interval) // by then the hold of an earlier schedule is over
	for n, m := range machines {
		all.Go(func() {
			client := redimutex.NewClient([]redimutex.Pool{pool}, opts...)
			defer client.Close()
			mutex := client.Mutex(key, redimutex.WithOwner(m.name))
			for tick := range ticks {
				if failures[n] = sleepUntil(ctx, first.Add(time.Duration(tick)*interval+m.slow)); failures[n] != nil {
					return
				}
				err := mutex.TryDo(ctx, func(context.Context) error {
					mu.Lock()
					runs[tick] = append(runs[tick], m.name)
					mu.Unlock()
					time.Sleep(work)
					return nil
				})
				if err != nil && !errors.Is(err, redimutex.ErrLocked) { // another machine runs it
					failures[n] = err
					return
				}
			}
		})
	}
	all.Wait()
	return runs, errors.Join(failures...)
}

func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
