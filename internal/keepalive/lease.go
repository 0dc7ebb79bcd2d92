// Package keepalive knows how long a lock is ours: validity, renewal and loss. It is about time only;
// what renewing means is the caller's.
package keepalive

import "time"

// A Reason says how a lease has ended.
type Reason int8

const (
	Alive    Reason = iota // it has not
	Unlocked               // by its holder
	Expired                // its validity ran out
	Deleted                // its key is gone
	Taken                  // its key holds another token
	Closed                 // the Keeper was closed
)

// Lost reports whether the lease ended other than by its holder.
func (r Reason) Lost() bool { return r > Unlocked }

// A Lease is one lock on the servers, from Keeper.Start to its end.
//
//	scheduled → due → renewing → scheduled, or retrying → due
//	     any of these → ended
//
// Invariants: the end is told before the validity is over, whatever a renewal is doing; no renewal
// starts after the end; the first end is the only one; and while an extension that shortens may still be
// executed, the validity counts the least that it may leave.
type Lease struct {
	keeper *Keeper
	terms  Terms

	// All below is protected by keeper.mu.
	until    time.Time     // valid until, by the monotonic clock and by the wall clock
	ttl      time.Duration // what a renewal asks for
	span     time.Duration // what the lease was given last
	reason   Reason
	handOff  bool // it was given a hand-off lease, and has to ask for its TTL first of all
	renewing bool // from due until Renewed
	retrying bool // the last renewal failed, or could not lift the limit
	limit    limit
	next     time.Time // when the keeper has to look at the lease
	due      bool      // to renew it; else to tell the loss
	index    int       // place in the keeper's heap, -1 outside
}

// A limit is the state of a lease while an extension that shortens has an unknown outcome: it may still
// be executed, and take back what a renewal gives meanwhile.
type limit struct {
	pending int           // extensions that are under way
	open    time.Time     // until then one that was given up may still be executed
	until   time.Time     // the least validity that they may leave
	span    time.Duration // the TTL that belongs to it
}

// lifted reports whether an extension that was sent at that moment is beyond the limit.
func (l *limit) lifted(sent time.Time) bool { return l.pending == 0 && !sent.Before(l.open) }

// Terms say how a lease lives.
type Terms struct {
	Began   time.Time
	Until   time.Time     // valid until, at first
	TTL     time.Duration // what a renewal asks for, at first
	Renew   bool          // whether there are renewals
	HandOff time.Duration // more than 0: all that was given is this, and the TTL is still to be asked for
	MaxHold time.Duration // no renewals after so long; 0: no limit
	Holder  Holder
}

// A Holder is told when its lease was lost. It is called without locks.
type Holder interface{ Lost(r Reason) }

// Until returns when the validity ends.
func (l *Lease) Until() time.Time {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	return l.until
}

// TTL returns what a renewal asks for.
func (l *Lease) TTL() time.Duration {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	return l.ttl
}

// Terms returns what the lease was started with.
func (l *Lease) Terms() *Terms { return &l.terms }

// Reason returns how the lease has ended. It goes by the clock: it does not wait for a timer that is late,
// nor for a process that has just been woken up.
func (l *Lease) Reason() Reason {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	if l.reason == Alive && over(l.until, time.Now()) {
		return Expired
	}
	return l.reason
}

// over reports whether until has passed. The monotonic clock of most systems stands still while the machine
// sleeps, so the wall clock is asked as well. Setting that forward costs a lease, which is the safe side.
func over(until, now time.Time) bool {
	return !now.Before(until) || !now.Round(0).Before(until.Round(0))
}

// End ends the lease because its holder unlocks. It returns Unlocked, or how the lease had ended before; an
// expiry that no timer has noticed yet counts.
func (l *Lease) End() Reason {
	l.keeper.mu.Lock()
	was := l.reason
	late := was == Alive && over(l.until, time.Now())
	switch {
	case late:
		was = Expired
		l.end(Expired)
	case was == Alive:
		was = Unlocked
		l.end(Unlocked)
	}
	l.keeper.mu.Unlock()
	if late {
		l.terms.Holder.Lost(Expired)
	}
	return was
}

// Lose ends the lease for a reason that the servers gave.
func (l *Lease) Lose(r Reason) {
	l.keeper.mu.Lock()
	first := l.end(r)
	l.keeper.mu.Unlock()
	if first {
		l.terms.Holder.Lost(r)
	}
}

// end reports whether it is the first end. The caller holds keeper.mu.
func (l *Lease) end(r Reason) bool {
	if l.reason != Alive {
		return false
	}
	l.reason = r
	l.keeper.remove(l)
	return true
}

// Extended moves the end of the validity, after the servers have confirmed an extension to ttl that was sent
// at that moment. Only Shorten brings the end nearer.
func (l *Lease) Extended(sent, until time.Time, ttl time.Duration) {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	now := time.Now()
	if l.reason != Alive || over(l.until, now) {
		return
	}
	l.retrying = false
	if !l.limit.lifted(sent) && l.limit.until.Before(until) {
		until, ttl, l.retrying = l.limit.until, l.limit.span, true
	}
	if until.After(l.until) || l.handOff {
		l.until, l.span = until, ttl
	}
	l.handOff = false
	l.schedule(now)
}

// Ask has renewals ask for ttl from now on.
func (l *Lease) Ask(ttl time.Duration) {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	l.ttl = ttl
}

// Shorten says that an extension to ttl is about to be sent, which leaves the lease valid until then, or
// longer if it is executed late. It has to be followed by Shortened.
func (l *Lease) Shorten(until time.Time, ttl time.Duration) {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	now := time.Now()
	if x := &l.limit; x.lifted(now) || until.Before(x.until) {
		x.until, x.span = until, ttl
	}
	l.limit.pending++
	if l.reason == Alive && until.Before(l.until) {
		l.until, l.span = until, ttl
		l.schedule(now)
	}
}

// Shortened says that the caller of Shorten has heard all that it will. Where a server has not answered, the
// extension may still be executed until open.
func (l *Lease) Shortened(open time.Time) {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	now := time.Now()
	x := &l.limit
	x.pending--
	for _, t := range []time.Time{open, now} {
		if t.After(x.open) {
			x.open = t
		}
	}
	if l.reason == Alive {
		l.schedule(now)
	}
}

// Renewed says that the renewal is over that the keeper had asked for. One that failed is repeated.
func (l *Lease) Renewed(ok bool) {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	l.renewing = false
	l.retrying = l.retrying || !ok
	if l.reason == Alive {
		l.schedule(time.Now())
	}
}

// margin is how long before the end of the validity the loss is told, so that the timers of a busy
// machine do not make it late.
func margin(span time.Duration) time.Duration {
	return min(max(span/100, time.Millisecond), 50*time.Millisecond)
}

// renewAt returns when the next renewal is due, which may be never.
func (l *Lease) renewAt(now time.Time) (at time.Time, ok bool) {
	if !l.terms.Renew && !l.handOff || l.renewing {
		return time.Time{}, false
	}
	switch {
	case l.retrying:
		at = now.Add(min(max(l.span/20, 5*time.Millisecond), 500*time.Millisecond))
	case l.handOff:
		return now, true
	default:
		at = l.until.Add(-l.span * 2 / 3)
	}
	return at, l.handOff || l.terms.MaxHold == 0 || at.Sub(l.terms.Began) < l.terms.MaxHold
}

// schedule decides when the keeper looks at the lease next. The caller holds keeper.mu.
func (l *Lease) schedule(now time.Time) {
	l.next, l.due = l.until.Add(-margin(l.span)), false
	if at, ok := l.renewAt(now); ok && at.Before(l.next) {
		l.next, l.due = at, true
	}
	l.keeper.fix(l, now)
}
