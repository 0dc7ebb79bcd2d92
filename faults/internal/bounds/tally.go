package bounds

import (
	"fmt"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	calls "github.com/redimutex/redimutex/internal/redistest/bounds"
)

// A tally is how the calls have kept their bounds, by method.
type tally struct {
	timed   bool     // whether milliseconds are judged
	methods []string // in their order
	scores  map[string]*score
	unready int
	why     string // the last one could not be prepared
	played  int    // waves of the first round
	waves   int
}

// A score is how the calls of one method have kept their bounds.
type score struct {
	held, tried int
	over        int           // by more than the limit, whatever the reason
	beyond      time.Duration // the worst, beyond the machine's own lateness
	where       string
	worst       time.Duration // with it
}

func newTally(timed bool) *tally { return &tally{timed: timed, scores: make(map[string]*score)} }

// add takes in what came of calls that were made at once, while the machine was late by so much.
func (y *tally) add(way calls.Way, cells []*calls.Cell, late time.Duration) {
	for _, c := range cells {
		if c.Unready != "" {
			y.unready++
			y.why = c.Unready
			continue
		}
		method := c.Verb.Method()
		s := y.scores[method]
		if s == nil {
			s = &score{worst: -time.Hour, beyond: -time.Hour}
			y.scores[method] = s
			y.methods = append(y.methods, method)
		}
		s.tried++
		if y.timed && c.Over <= limit+late || !y.timed && !c.Overtime {
			s.held++
		}
		if c.Over > limit {
			s.over++
		}
		s.worst = max(s.worst, c.Over)
		if beyond := c.Over - late; beyond > s.beyond {
			s.beyond = beyond
			s.where = fmt.Sprintf("%s, over %s, %s: %s over its bound, where the machine was late by %s",
				c.Verb.Name, c.Kind.Name, way.Name, millis(c.Over), millis(late))
		}
	}
}

func (y *tally) result(seed uint64) evidence.Result {
	var r evidence.Result
	for _, method := range y.methods {
		s := y.scores[method]
		r.Figures = append(r.Figures, evidence.Figure{
			Library: evidence.Ours + ", " + method, Held: s.held, Tried: s.tried,
			Worst: fmt.Sprintf("%s over its bound at worst beyond the machine's own lateness, %s with it; %d by more than %v with it",
				millis(s.beyond), millis(s.worst), s.over, limit),
		})
		r.Notes = append(r.Notes, fmt.Sprintf("The worst %s: %s.", method, s.where))
	}
	r.Notes = append(r.Notes, fmt.Sprintf(
		"Seed %d. All verbs over %d of %d pairs of a way of hanging and a kind of pool, or a few kinds in the short version.", seed, y.played, y.waves))
	if y.unready > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d calls could not be prepared, and do not count; the last: %s.", y.unready, y.why))
	}
	if !y.timed {
		r.Notes = append(r.Notes, fmt.Sprintf("Here a call has failed that is not through %v after its bound. The long version judges milliseconds.", shortPatience))
	}
	return r
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
