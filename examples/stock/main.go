//go:build unix

// Command stock is a flash sale: 1,000 buyers want 100 items, through several processes that share a real SQL database and a
// Redis. It shows three lines of defence against selling more than there is, and what happens without each of them:
//
//  1. the lock, so that the database deals with one seller at a time;
//
// In each sale one process is killed, and two are paused for longer than their lease. All of this happens at the worst moment:
// between the check of the lease and the write.
//
// Run it, without anything installed, by
//
//	go run ./stock
//
// or with REDIS_URL set to use a Redis of yours. Look at the column "oversold": the lock alone does not get it down to 0,
// because no lock with a timeout can stop a process that was paused. The fence does, and so does the constraint. The exit
// status is 1 if one of them did not. It needs a Unix, for its signals.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redimutex/redimutex/examples/internal/backend"
	"github.com/redimutex/redimutex/examples/internal/crew"
)

// defences are the lines of defence of each sale, one sale after the other.
var defences = []defence{
	{statement: sellPlain},
	{lock: true, statement: sellPlain},
	{lock: true, fence: true, statement: sellFenced},
	{lock: true, version: true, statement: sellVersioned},
	{lock: true, stock: true, statement: sellInStock},
	{stock: true, statement: sellInStock},
	{lock: true, fence: true, version: true, stock: true, statement: sellEverything},
}

// safe reports whether these defences must prevent overselling.
func (d *defence) safe() bool { return d.fence || d.version || d.stock }

var errOversold = errors.New("more was sold than there was, in a sale where that must not be")

func main() {
	if crew.Hired() {
		os.Exit(crew.Work(work))
	}
	p := plan{
		items: 100, buyers: 1000, processes: 6, tills: 4,
		mishaps: []mishap{{75, killed}, {50, paused}, {25, paused}},
	}
	backend.Main("stock", p.run)
}

// run holds one sale with each of the defences and prints the results.
func (p *plan) run(ctx context.Context, out io.Writer, url string) error {
	fmt.Fprintf(out, "%d buyers, %d items, %d processes with %d tills each, Redis, and SQLite.\n", p.buyers, p.items, p.processes, p.tills)
	fmt.Fprintf(out, "In each sale processes are killed or paused for longer than their lease: %d of them.\n\n", len(p.mishaps))
	fmt.Fprintln(out, "lock  fence  version  stock>0 | orders  oversold  refused  time   | what happened")
	bad := 0
	for _, d := range defences {
		began := time.Now()
		r, err := p.hold(ctx, d, url)
		if err != nil {
			return err
		}
		if d.safe() && r.oversold > 0 {
			bad++
		}
		fmt.Fprintf(out, "%-4s  %-5s  %-7s  %-7s | %6d  %8d  %7d  %4.1f s | %s\n",
			mark(d.lock), mark(d.fence), mark(d.version), mark(d.stock),
			r.orders, r.oversold, r.counts[refused], time.Since(began).Seconds(), d.verdict(r))
	}
	fmt.Fprint(out, `
The lock spares the database, and keeps those apart who are awake. It can't stop a process that
was paused for longer than its lease: that one writes when it wakes up. The database can, if it is
told what to compare: the fence, the version, or the stock itself.
`)
	if bad > 0 {
		return errOversold
	}
	return nil
}

// verdict describes in words how a sale went.
func (d *defence) verdict(r *result) string {
	switch {
	case r.oversold == 0 && d.safe():
		return "as many as there were, or fewer"
	case r.oversold == 0:
		return "nothing oversold, by luck"
	case d.safe():
		return "WRONG: this must not be"
	case d.lock:
		return "oversold by those who were paused"
	}
	return "oversold, by everybody who looked at the same time"
}

func mark(b bool) string {
	if b {
		return "yes"
	}
	return "-"
}
