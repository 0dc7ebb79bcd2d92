package keepalive

import "time"

// A limit is the state of a lease while an extension that shortens is under way. That extension may be executed behind
// a renewal that is asked for meanwhile, and take back what the renewal gave. It leaves its own TTL even then, so the
// renewal counts for that TTL from the moment when it was asked for, and for no more.
type limit struct {
	pending int           // shortenings that are under way
	lifted  time.Time     // when the last of them was over
	least   time.Duration // the shortest validity that one of them leaves
	span    time.Duration // the TTL that belongs to it
	settled time.Time     // when the limit before this one was lifted
}

// begin says that an extension to ttl is about to be sent, which leaves a validity until then at least.
func (x *limit) begin(now, until time.Time, ttl time.Duration) {
	least := until.Sub(now)
	switch {
	case x.pending == 0:
		x.settled, x.least, x.span = x.lifted, least, ttl
	case least < x.least:
		x.least, x.span = least, ttl
	}
	x.pending++
}

// end says that one of them is over.
func (x *limit) end(now time.Time) {
	x.pending--
	x.lifted = now
}

// allow returns what an extension is worth that was asked for at that moment. It is not ok where a limit that
// is forgotten by now may have taken it back.
func (x *limit) allow(asked, until time.Time, ttl time.Duration) (_ time.Time, _ time.Duration, ok bool) {
	if x.pending > 0 || asked.Before(x.lifted) {
		if least := asked.Add(x.least); least.Before(until) {
			until, ttl = least, min(ttl, x.span)
		}
	}
	return until, ttl, !asked.Before(x.settled)
}
