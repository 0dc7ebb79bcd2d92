package far

import (
	"time"

	"github.com/redimutex/redimutex/internal/lab/turns"
)

// margin is what a moment may be wrong by that is worked out from the clock of a member.
const margin = 10 * time.Millisecond

// An order is whether each got its turn in the order of arrival.
type order struct {
	waits  int
	passed int // waits in which another had two turns or more
	most   int // turns that another had in one wait
	whose  time.Duration
}

// order looks at all waits but the first of each member, which has its connections opened then. A waiter is passed
// by those that were before it, once each. The second turn of the same member in one wait is out of order.
func (q *queue) order(all []turns.Turn) (o order) {
	first := make([]int, len(q.members))
	for _, t := range all {
		if first[t.Who]++; first[t.Who] <= warm {
			continue
		}
		o.waits++
		from, until := t.Arrived().Add(margin), t.Granted().Add(-margin)
		had := make([]int, len(q.members))
		most := 0
		for _, other := range all {
			if at := other.Granted(); other.Who != t.Who && at.After(from) && at.Before(until) {
				had[other.Who]++
				most = max(most, had[other.Who])
			}
		}
		if most > 1 {
			o.passed++
		}
		if most > o.most {
			o.most, o.whose = most, t.RoundTrip
		}
	}
	return o
}

// warm is how many turns a member has before it counts.
const warm = 2
