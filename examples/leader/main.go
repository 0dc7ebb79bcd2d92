//go:build unix

// Command leader is a leader election: three processes want to lead, one does, and it writes to a ledger as long as its lease
// lasts. The first leader is killed, the second resigns, the third is paused for longer than its lease and wakes up when
// another leads.
//
// The ledger compares fences. Only that makes sure that no leader writes after its successor. The lease alone tells a leader
// as soon as possible, which is too late for one that was paused.
//
// Run it, without anything installed, by
//
//	go run ./leader
//
// or with REDIS_URL set to use a Redis of yours. Look at how long no candidate led: about a TTL after a
// leader was killed or paused, and next to nothing after it has resigned. The exit status is 1 if the
// fences of the leaders did not rise, or if the paused one was not told that it had lost its place. It
// needs a Unix, for its signals.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/redimutex/redimutex/examples/internal/backend"
	"github.com/redimutex/redimutex/examples/internal/crew"
)

func main() {
	if crew.Hired() {
		os.Exit(crew.Work(campaign))
	}
	backend.Main("leader", func(ctx context.Context, out io.Writer, url string) error {
		_, err := run(ctx, out, url)
		return err
	})
}

// run lets all terms take place, and prints them.
func run(ctx context.Context, out io.Writer, url string) (*contest, error) {
	fmt.Fprintf(out, "3 processes want to lead, with a lease of %v.\n\n", ttl)
	e, err := newContest(ctx, url)
	if err != nil {
		return nil, err
	}
	defer e.close()
	if err := e.play(out); err != nil {
		return nil, err
	}
	fmt.Fprintln(out, "\nterm  leader  fence             writes  none led before  ended")
	for n, t := range e.terms {
		fmt.Fprintf(out, "%4d  %-6s  %d  %6d  %14d ms  %s\n", n+1, t.leader, t.fence, t.writes, t.gap.Milliseconds(), t.end)
	}
	fmt.Fprintf(out, "\nThe ledger refused %d writes with an old fence, and took none.\n", e.refused)
	for n := 1; n < len(e.terms); n++ {
		if e.terms[n].fence <= e.terms[n-1].fence {
			return nil, errors.New("the fences did not rise")
		}
	}
	return e, nil
}
