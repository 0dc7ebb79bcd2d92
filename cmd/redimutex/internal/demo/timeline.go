package demo

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A timeline is who was in the critical section when. Times count from the beginning of the round.
type timeline struct {
	length time.Duration
	spans  []span // by their beginning, once finished
	death  *death // nil if no worker was killed
}

// A span is one stay in the critical section.
type span struct {
	worker, goroutine int
	from, to          time.Duration
}

// A death is that of a worker that held the lock.
type death struct {
	worker int
	at     time.Duration

	successor int           // the worker that got the lock next
	next      time.Duration // when it did; 0: no worker did
}

// over reports whether a process got the lock after the death.
func (d *death) over() bool { return d.next > 0 }

// recovery returns how long no worker had the lock.
func (d *death) recovery() time.Duration { return d.next - d.at }

// finish puts the timeline in order when all spans are known.
func (t *timeline) finish(length time.Duration) {
	t.length = length
	slices.SortFunc(t.spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.worker, b.worker))
	})
	if t.death == nil {
		return
	}
	for _, s := range t.spans {
		if s.from > t.death.at && s.worker != t.death.worker {
			t.death.successor, t.death.next = s.worker, s.from
			return
		}
	}
}

// A stretch is a piece of time.
type stretch struct{ from, to time.Duration }

// An edge is where a span begins or ends.
type edge struct {
	at    time.Duration
	delta int
}

// edges returns the beginnings and ends of all spans in order. Where one ends as another begins, they
// do not overlap.
func (t *timeline) edges() []edge {
	var edges []edge
	for _, s := range t.spans {
		edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta))
	})
	return edges
}

// peak returns how many goroutines were in the critical section at once, at most.
func (t *timeline) peak() int {
	inside, peak := 0, 0
	for _, e := range t.edges() {
		inside += e.delta
		peak = max(peak, inside)
	}
	return peak
}

// clashes returns when more than one goroutine was in the critical section.
func (t *timeline) clashes() []stretch {
	var all []stretch
	inside := 0
	for _, e := range t.edges() {
		inside += e.delta
		switch {
		case e.delta > 0 && inside == 2:
			all = append(all, stretch{from: e.at})
		case e.delta < 0 && inside == 1:
			all[len(all)-1].to = e.at
		}
	}
	return slices.DeleteFunc(all, func(s stretch) bool { return s.from == s.to })
}

// common returns the part of s that lies in o, if there is any.
func (s stretch) common(o stretch) (stretch, bool) {
	c := stretch{max(s.from, o.from), min(s.to, o.to)}
	return c, c.from < c.to
}

// ticks returns the marks of an axis of that length: five or so, at round numbers.
func ticks(length time.Duration) []time.Duration {
	step := 100 * time.Millisecond
	for _, next := range []time.Duration{200, 500, 1000, 2000, 5000} {
		if length/step > 8 {
			step = next * time.Millisecond
		}
	}
	var all []time.Duration
	for at := time.Duration(0); at <= length; at += step {
		all = append(all, at)
	}
	return all
}

// inSeconds writes d as people do.
func inSeconds(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
