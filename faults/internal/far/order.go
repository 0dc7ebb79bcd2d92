package far

import "time"

// margin is what a moment may be wrong by that is worked out from the clock of a member.
const margin = 10 * time.Millisecond

// arrived is when the request was with the server, and granted when the server gave the lock.
func (q *queue) arrived(t turn) time.Time { return t.asked.Add(q.members[t.who].roundTrip / 2) }
func (q *queue) granted(t turn) time.Time { return t.got.Add(-q.members[t.who].roundTrip / 2) }

// own is how long a turn takes in all: the message to the member, its work, and the way of its release.
func (q *queue) own(t turn) time.Duration { return t.left.Sub(t.got) + q.members[t.who].roundTrip }

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

// rate returns the turns in a second of those whose round trip is 0, in the time that the turns of the others leave them.
func (q *queue) rate(turns []turn) float64 {
	if len(turns) < 2 {
		return 0
	}
	began, ended := turns[0].left, turns[len(turns)-1].left
	left := ended.Sub(began)
	n := 0
	for _, t := range turns[1:] {
		if q.members[t.who].roundTrip == 0 {
			n++
		} else {
			left -= q.own(t)
		}
	}
	if left <= 0 {
		return 0
	}
	return float64(n) / left.Seconds()
}
