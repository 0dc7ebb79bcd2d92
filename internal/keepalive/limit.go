package keepalive

import "time"

// A limit is the state of a lease while an extension that shortens has an unknown outcome. That extension
// may be executed behind a renewal that was sent later, and take back what the renewal gave. It leaves its
// own TTL even then, so the renewal counts for that TTL from the moment when it was sent, and for no more.
type limit struct {
	pending int           // shortenings that are under way
	open    time.Time     // until then one that was given up may still be executed
	least   time.Duration // the shortest validity that one of them leaves
	span    time.Duration // the TTL that belongs to it
	settled time.Time     // the end of the limit before this one
}

// begin says that an extension to ttl is about to be sent, which leaves a validity until then at least.
func (x *limit) begin(now, until time.Time, ttl time.Duration) {
	least := until.Sub(now)
	switch {
	case x.lifted(now):
		x.settled, x.least, x.span = x.open, least, ttl
	case least < x.least:
		x.least, x.span = least, ttl
	}
	x.pending++
}

// end says that the outcome of one of them is known at now, or will be at open.
func (x *limit) end(now, open time.Time) {
	x.pending--
	for _, t := range []time.Time{now, open} {
		if t.After(x.open) {
			x.open = t
		}
	}
}

// lifted reports whether an extension that was sent at that moment is beyond the limit.
func (x *limit) lifted(sent time.Time) bool { return x.pending == 0 && !sent.Before(x.open) }

// allow returns what an extension is worth that was sent at that moment. It is not ok where a limit that
// is forgotten by now may have taken it back.
func (x *limit) allow(sent, until time.Time, ttl time.Duration) (_ time.Time, _ time.Duration, ok bool) {
	if !x.lifted(sent) {
		if least := sent.Add(x.least); least.Before(until) {
			until, ttl = least, min(ttl, x.span)
		}
	}
	return until, ttl, !sent.Before(x.settled)
}
