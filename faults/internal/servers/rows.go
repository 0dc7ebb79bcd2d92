// Package servers holds the rows of the table of faults in which real servers, or the way to them,
// are what fails: paused servers, dropped paths, late replies, refusals, broken connections.
package servers

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// Rows returns rows 8 to 14, 18 and 19.
func Rows() []evidence.Row {
	return []evidence.Row{
		minorityRow(), majorityRow(), onlyServerRow(), droppedPathRow(), resumedRow(), cancelledRow(), lateReplyRow(),
		refusalsRow(), leaksRow(),
	}
}

// A run is one row as it is played.
type run struct {
	evidence.Setup
	t      testing.TB
	rng    *rand.Rand
	began  time.Time
	result *evidence.Result
}

// play returns the Run of a row that is played on a stage.
func play(row func(r *run)) func(context.Context, evidence.Setup) (evidence.Result, error) {
	return func(ctx context.Context, s evidence.Setup) (evidence.Result, error) {
		var result evidence.Result
		err := evidence.Stage(ctx, func(t testing.TB) {
			row(&run{
				Setup: s, t: t, rng: rand.New(rand.NewPCG(s.Seed, 0)), began: time.Now(), result: &result, //nolint:gosec // it has to be repeatable
			})
		})
		return result, err
	}
}

// more reports whether another round is due after done of them: so many in the short version; in the
// long one at least so many, and then until the time is over.
func (r *run) more(done, short, long int) bool {
	if r.t.Context().Err() != nil {
		r.t.Fatal(context.Cause(r.t.Context()))
	}
	goal := short
	if r.Long {
		goal = long
	}
	if r.Report != nil {
		r.Report(min(done, goal), goal)
	}
	return done < goal || r.Long && done < 20*goal && time.Since(r.began) < r.Time
}

func (r *run) figure(f evidence.Figure) { r.result.Figures = append(r.result.Figures, f) }

func (r *run) note(sentence string) { r.result.Notes = append(r.result.Notes, sentence) }

// between returns a random time from a up to b.
func (r *run) between(a, b time.Duration) time.Duration {
	return a + time.Duration(r.rng.Int64N(int64(b-a)))
}
