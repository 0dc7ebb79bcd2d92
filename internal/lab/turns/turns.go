// Package turns tells what a client that is far away from the server costs those that are near it, in a queue for one
// lock: from when each of them had the lock, as the clocks of their own machine say.
package turns

import (
	"slices"
	"time"
)

// A Turn is one hold, and the wait before it, as the client saw it.
type Turn struct {
	Who        int
	RoundTrip  time.Duration // of the client to the server; 0: it is near
	Asked, Got time.Time
	Freed      time.Time // Unlock has returned
}

// Arrived is when the request was with the server, and Granted when the server gave the lock.
func (t Turn) Arrived() time.Time { return t.Asked.Add(t.RoundTrip / 2) }
func (t Turn) Granted() time.Time { return t.Got.Add(-t.RoundTrip / 2) }

// Own is how long the turn took at the server, from the message to the client to its release. It can't be less than the
// work and a round trip.
func (t Turn) Own() time.Duration { return t.Freed.Sub(t.Got) }

// Released is when the lock was free for the next one.
func (t Turn) Released() time.Time { return t.Freed.Add(-t.RoundTrip / 2) }

// A Pace is how near ones get on in the time that the turns of a far one leave them.
type Pace struct {
	Near  int           // their turns
	Time  time.Duration // in this time
	Turns int           // of the far one
	Own   time.Duration // in all
}

// Rate is the turns of the near ones in a second.
func (p Pace) Rate() float64 { return float64(p.Near) / max(p.Time.Seconds(), 1e-9) }

// Each is how long a turn of the far one takes.
func (p Pace) Each() time.Duration { return p.Own / time.Duration(max(p.Turns, 1)) }

// Add takes in some turns, and sorts them.
func (p *Pace) Add(turns []Turn) {
	if len(turns) < 2 {
		return
	}
	slices.SortFunc(turns, func(a, b Turn) int { return a.Released().Compare(b.Released()) })
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
