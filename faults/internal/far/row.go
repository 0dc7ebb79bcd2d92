// Package far makes clients that are far away from the server queue with near ones. It finds out whether each gets its turn in
// order of arrival, and what that costs the others.
package far

import (
	"fmt"
	"strings"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/faults/internal/load"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Rows returns what this package has for the table.
func Rows() []evidence.Row {
	return []evidence.Row{evidence.Played(evidence.Row{
		ID: 23, Name: "far",
		Fault: "round trips of 0 to 400 ms in one queue",
		Must:  "turns in order of arrival; a far client costs the others its own turns and no more",
		Short: 12 * time.Second, Long: 3 * time.Minute,
	}, func(s *evidence.Scene) {
		var r report
		began, lateness := time.Now(), redistest.MeasureLateness()
		r.play(s)
		late := lateness.Stop()
		const nap = 2 * time.Millisecond // of MeasureLateness
		r.late = time.Duration(float64(late) * float64(nap) / float64(max(time.Since(began)-late, nap)))
		s.Figure(r.figures(s.Long)...)
		s.Note("Each works for %v. A turn of a far one takes that and a round trip at least: the message to it, and its release.", work)
		s.Note("A wait is in order if no other client had two turns in it. Moments at the server are worked out from the clients' clocks, to %v.", margin)
		s.Note("The others must have %v of their rate, or each turn of the far one may cost them no more than what the machine is late in it.", goal)
	})}
}

var roundTrips = []time.Duration{0, 20 * time.Millisecond, 80 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}

const (
	work = 20 * time.Millisecond // longer than keepalive.Patience: a hand-off is extended meanwhile
	near = 3                     // clients without a round trip, where the cost of one far one is measured
	goal = .95                   // of the rate that they have without the far one
	some = 4                     // turns that each member has at least, however long that takes
)

// A cost says what one far client costs the near ones.
type cost struct {
	roundTrip     time.Duration
	without, with pace
}

func (c cost) share() float64 { return c.with.Rate() / c.without.Rate() }

// more returns what each turn of the far one costs the others beyond its own time.
func (c cost) more() time.Duration {
	needed := time.Duration(float64(c.with.Near) / c.without.Rate() * float64(time.Second))
	return (c.with.Time - needed) / time.Duration(max(c.with.Turns, 1))
}

// held reports whether the cost is allowed. It allows each turn the lateness of the machine, once for each time that a process
// has to be woken up in the turn: at the two ends, and on both ways between them.
func (c cost) held(late time.Duration) bool {
	const woken = 6
	return c.share() >= goal || c.more() <= woken*late
}

// A report has the results of all queues.
type report struct {
	load.Sums
	counts []int
	order  order
	costs  []cost
	late   time.Duration // how late a timer is on average
}

// play gives half of the time to a queue of all clients, and divides the rest among the far ones.
func (r *report) play(s *evidence.Scene) {
	server := redistest.Real(s)
	q := newQueue(s, server, "all", roundTrips...)
	all := q.run(s.Context(), s, s.Time/2, some)
	r.counts, r.order = q.counts, q.order(all)
	r.Add(q.Sums())
	far := roundTrips[1:]
	for i, rt := range far {
		s.Progress(len(far)+i, 2*len(far))
		each := s.Time / 2 / time.Duration(len(far))
		c := cost{roundTrip: rt}
		alone := newQueue(s, server, fmt.Sprint("without ", rt), make([]time.Duration, near)...)
		mixed := newQueue(s, server, fmt.Sprint("with ", rt), append(make([]time.Duration, near), rt)...)
		alone.run(s.Context(), s, 0, some) // they open their connections
		mixed.run(s.Context(), s, 0, some)
		const parts = 4 // by turns, because the machine is not equally fast all the time
		for range parts {
			c.without.Add(alone.run(s.Context(), s, each/parts/3, some))
			c.with.Add(mixed.run(s.Context(), s, each/parts*2/3, some))
		}
		r.costs = append(r.costs, c)
		r.Add(alone.Sums())
		r.Add(mixed.Sums())
		if s.Failed() || s.Context().Err() != nil {
			return
		}
	}
}

func (r *report) figures(judged bool) []evidence.Figure {
	var shares []string
	for i, n := range r.counts {
		shares = append(shares, fmt.Sprintf("%d of %v", n, roundTrips[i]))
	}
	figures := []evidence.Figure{
		{Library: evidence.Ours + ", one lease at once", Held: r.Holds - r.Clashes, Tried: r.Holds, Worst: fmt.Sprintf("%d overlaps", r.Clashes)},
		{
			Library: evidence.Ours + ", waits in order of arrival", Held: r.order.waits - r.order.passed, Tried: r.order.waits, NotJudged: !judged,
			Worst: fmt.Sprintf("another had %d turns in one wait at most, of a client of %v; holds: %s", r.order.most, r.order.whose, strings.Join(shares, ", ")),
		},
	}
	for _, c := range r.costs {
		f := evidence.Figure{
			Library: fmt.Sprintf("%s, the others beside one of %v", evidence.Ours, c.roundTrip), Tried: 1, NotJudged: !judged,
			Worst: fmt.Sprintf("they have %.3f of the rate that they have without it (%.1f of %.1f in a second), in the time that its %d turns leave, of %v each; "+
				"each costs %.1f ms beyond that, where timers are late by %.1f ms",
				c.share(), c.with.Rate(), c.without.Rate(), c.with.Turns, c.with.Each().Round(time.Millisecond), millis(c.more()), millis(r.late)),
		}
		if c.held(r.late) {
			f.Held = 1
		}
		figures = append(figures, f)
	}
	return figures
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
