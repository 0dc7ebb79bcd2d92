//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redimutex/redimutex/examples/internal/crew"
)

// A plan is the size of the sales.
type plan struct {
	items     int64
	buyers    int
	processes int
	tills     int // of each process
	mishaps   []mishap
}

// A mishap happens to the process that is about to sell when this many items are left.
type mishap struct {
	at   int64
	kind string
}

// A defence says which lines of defence a sale has.
type defence struct {
	lock                  bool
	fence, version, stock bool
	statement             string
}

// A result is how a sale ended.
type result struct {
	orders, oversold int64
	counts           map[string]int // of events
}

// hold holds a sale with real processes and a fresh database.
func (p *plan) hold(ctx context.Context, d defence, redisURL string) (*result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "stock")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "shop.db")
	shop, err := openShop(file)
	if err != nil {
		return nil, err
	}
	defer shop.close()
	if err := shop.stockUp(ctx, p.items, p.mishaps); err != nil {
		return nil, err
	}
	j := job{URL: redisURL, File: file, Statement: d.statement, Fenced: d.fence, Tills: p.tills}
	if d.lock {
		j.Key = "example:stock:" + rand.Text()
	}
	r := &result{counts: make(map[string]int)}
	if err := p.open(ctx, cancel, j, r); err != nil {
		return nil, err
	}
	if r.orders, err = shop.orders(ctx); err != nil {
		return nil, err
	}
	r.oversold = max(r.orders-p.items, 0)
	return r, nil
}

// A report is an event of a process, or its end.
type report struct {
	from *crew.Worker
	what string
	over bool
	err  error
}

// open runs the processes until the last buyer was served. When only paused processes are left, open continues them, one after
// the other: by then their leases are over.
func (p *plan) open(ctx context.Context, cancel func(), j job, r *result) error {
	reports := make(chan report)
	hear := func(w *crew.Worker, e event) { reports <- report{from: w, what: e.What} }
	over := func(w *crew.Worker, err error) { reports <- report{from: w, over: true, err: err} }
	running, doomed := 0, make(map[*crew.Worker]bool)
	var stopped []*crew.Worker
	var last time.Time // that one was paused
	var failed error
	for n := range p.processes {
		j.First, j.Last = n*p.buyers/p.processes+1, (n+1)*p.buyers/p.processes
		if _, err := crew.Hire(ctx, j, hear, over); err != nil {
			failed = err
			cancel() // and wait for those that run
			break
		}
		running++
	}
	for running > 0 {
		e := <-reports
		switch {
		case e.over:
			running--
			if e.err != nil && !doomed[e.from] && failed == nil {
				failed = fmt.Errorf("a process of tills failed: %w", e.err)
			}
		default:
			r.counts[e.what]++
			doomed[e.from] = doomed[e.from] || e.what == killed
			if e.what == paused {
				stopped, last = append(stopped, e.from), time.Now()
			}
		}
		if running > 0 && running == len(stopped) {
			time.Sleep(time.Until(last.Add(ttl)))
			if err := stopped[0].Signal(syscall.SIGCONT); err != nil && failed == nil {
				failed = err
			}
			stopped = stopped[1:]
		}
	}
	if failed == nil {
		failed = context.Cause(ctx)
	}
	return failed
}
