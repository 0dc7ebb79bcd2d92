package far

import (
	"slices"
	"time"
)

// A turn is one hold, and the wait before it, as the client saw it.
type turn struct {
	Who        int
	RoundTrip  time.Duration // of the client to the server; 0: it is near
	Asked, Got time.Time
	Freed      time.Time // Unlock has returned
}

// Arrived is when the request was with the server, and Granted when the server gave the lock.
func (t turn) Arrived() time.Time { return t.Asked.Add(t.RoundTrip / 2) }
func (t turn) Granted() time.Time { return t.Got.Add(-t.RoundTrip / 2) }

// Own is how long the turn took at the server, from the message to the client to its release. It can't be less than the
// work and a round trip.
func (t turn) Own() time.Duration { return t.Freed.Sub(t.Got) }

// Released is when the lock was free for the next one.
func (t turn) Released() time.Time { return t.Freed.Add(-t.RoundTrip / 2) }

// A pace is how near ones get on in the time that the turns of a far one leave them.
type pace struct {
	Near  int           // their turns
	Time  time.Duration // in this time
	Turns int           // of the far one
	Own   time.Duration // in all
}

// Rate is the turns of the near ones in a second.
func (p pace) Rate() float64 { return float64(p.Near) / max(p.Time.Seconds(), 1e-9) }

// Each is how long a turn of the far one takes.
func (p pace) Each() time.Duration { return p.Own / time.Duration(max(p.Turns, 1)) }

// Add takes in some turns, and sorts them.
func (p *pace) Add(turns []turn) {
	if len(turns) < 2 {
		return
	}
	slices.SortFunc(turns, func(a, b turn) int { return a.Released().Compare(b.Released()) })
	p.Time += turns[len(turns)-1].Released().Sub(turns[0].Released())
	for _, t := range turns[1:] {
		if t.RoundTrip == 0 {
			p.Near++
		} else {
			p.Turns++
			p.Own += t.Own()
			p.Time -= t.Own()
		}
	}
}

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
func (q *queue) order(all []turn) (o order) {
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
