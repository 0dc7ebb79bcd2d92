// Package evidence is what the fault scenarios and the report have in common: the rows of the table of faults, and their
// results.
package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redimutex/redimutex/internal/redistest"
)

// Stage plays a row, or a part of it, with a testing.TB, so that it can use what is made for tests.
func Stage(ctx context.Context, play func(t testing.TB)) error { return redistest.Stage(ctx, play) }

// ErrSkipped is the error of a row that this machine can't run.
var ErrSkipped = redistest.ErrSkipped

// A Row is one line of the table: a fault, and what must hold under it.
type Row struct {
	ID    int    // the row's number in the table
	Name  string // one word to pick it by on the command line, unique
	Fault string // what is done to the locks
	Must  string // what must hold, in the words of the table
	Short time.Duration
	Long  time.Duration // Short and Long: about how long each version takes
	Run   func(ctx context.Context, s Setup) (Result, error)
}

// Hold plays the short version of the row in a test, for about d, or for about Short if d is 0. The test fails unless all
// held. It is skipped on a machine that can't run the row.
func (r Row) Hold(t *testing.T, d time.Duration) Result {
	t.Helper()
	result, err := r.Run(t.Context(), Setup{Seed: 1, Time: cmp.Or(d, r.Short), Dir: t.TempDir(), Report: func(int, int) {}})
	switch {
	case errors.Is(err, ErrSkipped):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	for _, n := range result.Notes {
		t.Log(n)
	}
	for _, f := range result.Figures {
		t.Log(f)
	}
	if !result.OK() {
		t.Error("not all held")
	}
	return result
}

// A Setup is what a row runs with.
type Setup struct {
	Seed   uint64
	Time   time.Duration // about how long the row may take; its repetitions may end it earlier
	Long   bool          // the long version: all the repetitions that the table asks for
	Dir    string        // for pictures and histories; it exists
	Report func(done, of int)
}

// A Result is the outcome of a row.
type Result struct {
	Figures []Figure // ours first
	Notes   []string // whole sentences for the report
	Files   []string // pictures and the like, names in Setup.Dir
}

// Ours is the name of this library in its figures.
const Ours = "redimutex"

// A Figure says how one library did: what must hold did hold in Held of Tried tries.
type Figure struct {
	Library     string // with what was switched on, if that matters
	Held, Tried int
	Worst       string // the worst case in words and units, such as "p99 3.1 ms, limit 5 ms"
	NotJudged   bool   // a comparison: even if it fails, the run passes
}

// Count adds one try.
func (f *Figure) Count(held bool) {
	f.Tried++
	if held {
		f.Held++
	}
}

// OK reports whether what must hold always did, in at least one try.
func (f Figure) OK() bool { return f.NotJudged || f.Tried > 0 && f.Held == f.Tried }

func (f Figure) String() string {
	s := fmt.Sprintf("%s: %d of %d", f.Library, f.Held, f.Tried)
	if f.Worst != "" {
		s += ", " + f.Worst
	}
	return s
}

// OK reports whether all figures that are judged are as they must be. A result without such a figure has shown nothing.
func (r Result) OK() bool {
	shown := false
	for _, f := range r.Figures {
		if !f.OK() {
			return false
		}
		shown = shown || !f.NotJudged
	}
	return shown
}
