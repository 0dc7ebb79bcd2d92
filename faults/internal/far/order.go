package far

import (
	"slices"
	"time"
)

// margin is what a moment may be wrong by that is worked out from the clock of a member.
const margin = 10 * time.Millisecond

// arrived is when the request was with the server, and granted when the server gave the lock.
func (q *queue) arrived(t turn) time.Time { return t.asked.Add(q.members[t.who].roundTrip / 2) }
func (q *queue) granted(t turn) time.Time { return t.got.Add(-q.members[t.who].roundTrip / 2) }

// own is how long a turn takes at the server, from the message to the member to its release. It can't be less than the work
// and a round trip.
func (q *queue) own(t turn) time.Duration { return t.freed.Sub(t.got) }

// released is when the lock was free for the next one.
func (q *queue) released(t turn) time.Time { return t.freed.Add(-q.members[t.who].roundTrip / 2) }

// An order is whether each got its turn in the order of arrival.
type order struct {
	waits  int
	passed int // waits in which another had two turns or more
	most   int // turns that another had in one wait
	whose  time.Duration
}

// order looks at all waits but the first of each member, which has its connections opened then. Who waits is passed by
// those that were before it, once each. The second turn of the same member in one wait is out of order.
func (q *queue) order(turns []turn) (o order) {
	first := make([]int, len(q.members))
	for _, t := range turns {
		if first[t.who]++; first[t.who] <= warm {
			continue
		}
		o.waits++
		from, until := q.arrived(t).Add(margin), q.granted(t).Add(-margin)
		had := make([]int, len(q.members))
		most := 0
		for _, other := range turns {
			if at := q.granted(other); other.who != t.who && at.After(from) && at.Before(until) {
				had[other.who]++
				most = max(most, had[other.who])
			}
		}
		if most > 1 {
			o.passed++
		}
		if most > o.most {
			o.most, o.whose = most, q.members[t.who].roundTrip
		}
	}
	return o
}

// warm is how many turns a member has before it counts.
const warm = 2

// A pace is how near ones get on in the time that the turns of a far one leave them.
type pace struct {
	near  int           // their turns
	time  time.Duration // in this time
	turns int           // of the far one
	own   time.Duration // in all
}

// rate is the turns of the near ones in a second.
func (p pace) rate() float64 { return float64(p.near) / max(p.time.Seconds(), 1e-9) }

// each is how long a turn of the far one takes.
func (p pace) each() time.Duration { return p.own / time.Duration(max(p.turns, 1)) }

// add takes in some turns.
func (p *pace) add(q *queue, turns []turn) {
	slices.SortFunc(turns, func(a, b turn) int { return q.released(a).Compare(q.released(b)) })
	if len(turns) < 2 {
		return
	}
	p.time += q.released(turns[len(turns)-1]).Sub(q.released(turns[0]))
	for _, t := range turns[1:] {
		if q.members[t.who].roundTrip == 0 {
			p.near++
		} else {
			p.turns++
			p.own += q.own(t)
			p.time -= q.own(t)
		}
	}
}
