// Package bounds checks that every verb keeps to its bound, over every kind of pool and in every way in which a server can
// hang. The calls, the pools and the ways are those of the tests, in internal/redistest/bounds.
package bounds

import (
	"fmt"
	"slices"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	calls "github.com/redimutex/redimutex/internal/redistest/bounds"
)

// Rows returns what this package has for the table.
func Rows() []evidence.Row {
	return []evidence.Row{evidence.Played(evidence.Row{
		ID: 22, Name: "bounds",
		Fault: "every verb, over every kind of pool, while the server hangs in every way",
		Must:  "no call outlasts its bound by 50 ms, the machine's own lateness apart",
		Short: 12 * time.Second, Long: 7 * time.Minute,
	}, play)}
}

const (
	limit = 50 * time.Millisecond
	// If a call is still under way this long after its bound, the row stops waiting for it, and the server goes on.
	patience      = time.Second
	shortPatience = 5 * time.Second // where no times are judged: only a call that lasts as long as the hang takes longer
)

// play tests each way of hanging with some kinds of pools, and then with the next kinds, until the time is over.
func play(s *evidence.Scene) {
	width, wait := 3, shortPatience // kinds of pools at once
	if s.Long {
		width, wait = 1, patience
	}
	random := s.Random(0)
	ways := calls.Ways()
	random.Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
	benches, all := make([]*calls.Bench, len(ways)), make([]tally, len(ways))
	kinds := make([][]calls.Kind, len(ways)) // by way: the kinds that are still to come
	began := time.Now()
	more := func(round int) bool { // every way comes once, however long that takes
		return s.Context().Err() == nil && !s.Failed() && (round == 0 || time.Since(began) < s.Time)
	}
	for round := 0; more(round); round++ {
		for i, way := range ways {
			if !more(round) {
				break
			}
			if len(kinds[i]) == 0 {
				kinds[i] = slices.DeleteFunc(calls.Kinds(), func(k calls.Kind) bool { return !way.Concerns(k) })
				random.Shuffle(len(kinds[i]), func(a, b int) { kinds[i][a], kinds[i][b] = kinds[i][b], kinds[i][a] })
			}
			if benches[i] == nil {
				benches[i] = calls.New(s, way)
			}
			n := min(width, len(kinds[i]))
			cells := benches[i].Cells(kinds[i][:n]...)
			kinds[i] = kinds[i][n:]
			all[i].add(cells, benches[i].Run(cells, wait), s.Long)
			s.Progress(int(time.Since(began)/time.Millisecond), int(s.Time/time.Millisecond))
		}
	}
	for i, b := range benches {
		if b == nil {
			continue
		}
		if b.Met() == 0 {
			s.Errorf("no try has failed while the server hung (%s), so nothing was shown", ways[i].Name)
		}
		s.Figure(all[i].figure(ways[i].Name))
	}
	if !s.Long {
		s.Note("Here a call has failed that is not through %v after its bound. The long version judges milliseconds.", shortPatience)
	}
}

// A tally says how calls have kept to their bounds while the server hung in one way.
type tally struct {
	held, tried, unready int
	beyond               time.Duration // by how much the worst call was over its bound, apart from the machine's own lateness
	worst                string
}

// add counts the results of calls that were made at the same time, while the machine was late by up to late.
func (y *tally) add(cells []*calls.Cell, late time.Duration, timed bool) {
	for _, c := range cells {
		if c.Unready != "" {
			y.unready++
			continue
		}
		y.tried++
		if timed && c.Over <= limit+late || !timed && !c.Overtime {
			y.held++
		}
		if beyond := c.Over - late; y.worst == "" || beyond > y.beyond {
			y.beyond = beyond
			y.worst = fmt.Sprintf("%s, over %s: %v over its bound, where the machine was late by %v",
				c.Verb.Name, c.Kind.Name, c.Over.Round(100*time.Microsecond), late.Round(100*time.Microsecond))
		}
	}
}

func (y *tally) figure(way string) evidence.Figure {
	return evidence.Figure{
		Library: evidence.Ours + ", " + way, Held: y.held, Tried: y.tried,
		Worst: fmt.Sprintf("%s; %d calls could not be prepared, and do not count", y.worst, y.unready),
	}
}
