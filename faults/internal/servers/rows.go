// Package servers holds the rows of the table of faults in which real servers, or the way to them,
// are what fails: paused servers, dropped paths, late replies, refusals, broken connections.
package servers

import (
	"math/rand/v2"
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
	*evidence.Scene
	rng   *rand.Rand
	began time.Time
}

// played is a row with what plays it.
func played(row evidence.Row, play func(r *run)) evidence.Row {
	return evidence.Played(row, func(s *evidence.Scene) { play(&run{Scene: s, rng: s.Random(0), began: time.Now()}) })
}

// more reports whether another round is due after done of them: so many in the short version; in the
// long one at least so many, and then until the time is over.
func (r *run) more(done, short, long int) bool {
	goal := short
	if r.Long {
		goal = long
	}
	r.Progress(min(done, goal), goal)
	return r.Context().Err() == nil && (done < goal || r.Long && done < 20*goal && time.Since(r.began) < r.Time)
}

// between returns a random time from a up to b.
func (r *run) between(a, b time.Duration) time.Duration { return evidence.Between(r.rng, a, b) }
