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

// Arrived returns when the request was at the server, and Granted when the server granted the lock.
func (t turn) Arrived() time.Time { return t.Asked.Add(t.RoundTrip / 2) }
func (t turn) Granted() time.Time { return t.Got.Add(-t.RoundTrip / 2) }

// Own returns how long the turn took at the server, from its message to the client until the client's release. It can't be
// less than the work and a round trip.
func (t turn) Own() time.Duration { return t.Freed.Sub(t.Got) }

// Released returns when the lock was free for the next client.
func (t turn) Released() time.Time { return t.Freed.Add(-t.RoundTrip / 2) }

// A pace says how many turns near clients have in the time that the turns of a far one leave them.
type pace struct {
	Near  int           // turns of the near clients
	Time  time.Duration // the time that they had for them
	Turns int           // turns of the far client
	Own   time.Duration // the time that these took, in all
}

// Rate returns how many turns the near clients have in a second.
func (p pace) Rate() float64 { return float64(p.Near) / max(p.Time.Seconds(), 1e-9) }

// Each returns how long a turn of the far client takes.
func (p pace) Each() time.Duration { return p.Own / time.Duration(max(p.Turns, 1)) }

// Add adds some turns, and sorts them.
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

// margin is by how much a moment may be wrong that is computed from the clock of a member.
const margin = 10 * time.Millisecond

// An order says whether all members got their turns in order of arrival.
type order struct {
	waits  int
	passed int // waits in which another had two turns or more
	most   int // turns that another had in one wait
	whose  time.Duration
}

// order looks at all waits except the first ones of each member, in which it opens its connections. During one wait, each
// member that was before the waiter has one turn. A second turn of the same member is out of order.
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
