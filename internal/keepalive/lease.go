// Package keepalive knows how long a lock is ours: validity, renewal and loss. It is about time only;
// what renewing means is the caller's.
package keepalive

import (
	"sync/atomic"
	"time"
)

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

// A Lease is one lock on the servers, from Keeper.Start to its end.
//
//	scheduled → due → renewing → scheduled, or retrying → due
//	     any of these → ended
//
// Invariants: the end is told before the validity is over, whatever a renewal is doing; no renewal
// is handed out after the end; and the first end is the only one.
type Lease struct {
	keeper *Keeper
	holder Holder
	last   instant     // no renewal is due then or later
	ended  atomic.Bool // the reason is not Alive any more; for those that must not wait for keeper.mu

	// All below is protected by keeper.mu.
	until    time.Time     // valid until, by the monotonic clock and by the wall clock
	ttl      time.Duration // what a renewal asks for
	span     time.Duration // the TTL that until belongs to
	retry    instant       // no renewal before then, because the last one brought nothing
	next     instant       // when the keeper has to look at the lease
	index    int32         // place in the keeper's heap, -1 outside
	reason   Reason
	handOff  bool // it was given a hand-off lease, and has still to ask for its TTL
	renewing bool // from due until Renewed
	due      bool // to renew it; else to tell the loss
}

// Terms say how a lease lives.
type Terms struct {
	Began   time.Time
	Until   time.Time     // valid until, at first
	TTL     time.Duration // what a renewal asks for, at first
	Renew   bool          // whether there are renewals
	HandOff time.Duration // more than 0: all that was given is this, and the TTL is to be asked for soon
	MaxHold time.Duration // no renewals after so long; 0: no limit
	Holder  Holder
}

// A Holder is told once that its lease was lost, without locks. Others may wait for their turn to be told, so
// Lost must not block; nor may it close the Keeper, which waits for it.
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

// Holder returns who holds it.
func (l *Lease) Holder() Holder { return l.holder }

// Reason returns how the lease has ended. It goes by the clock: it does not wait for a timer that is late,
// nor for a process that has just been woken up.
func (l *Lease) Reason() Reason {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	if l.reason == Alive && l.over(time.Now()) {
		return Expired
	}
	return l.reason
}

// Ended reports whether a process has noticed that the lease has ended. Where its Reason was told, it has.
func (l *Lease) Ended() bool { return l.ended.Load() }

// nearer returns until as the clock has it that leaves less. The monotonic clock of most systems stands
// still while the machine sleeps, so the wall clock is asked as well. Setting that forward costs a lease,
// which is the safe side.
func nearer(until, now time.Time) time.Time {
	if left := until.Round(0).Sub(now.Round(0)); left < until.Sub(now) {
		return now.Add(left)
	}
	return until
}

// over reports whether the validity has ended by either clock. The lease is alive, and the caller holds
// keeper.mu.
func (l *Lease) over(now time.Time) bool {
	until := nearer(l.until, now)
	if now.Before(until) {
		return false
	}
	if until.Before(l.until) { // only the wall clock says so. It may be set back, which must revive nothing
		l.until = until
		l.schedule()
	}
	return true
}

// End ends the lease because its holder unlocks, now. It returns Unlocked, or how the lease had ended before; an
// expiry that no timer has noticed yet counts.
func (l *Lease) End(now time.Time) Reason {
	l.keeper.mu.Lock()
	was := l.reason
	late := was == Alive && l.over(now)
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
		l.holder.Lost(Expired)
	}
	return was
}

// Lose ends the lease for a reason that the servers gave.
func (l *Lease) Lose(r Reason) {
	l.keeper.mu.Lock()
	first := l.end(r)
	l.keeper.mu.Unlock()
	if first {
		l.holder.Lost(r)
	}
}

// end reports whether it is the first end. The caller holds keeper.mu.
func (l *Lease) end(r Reason) bool {
	if l.reason != Alive {
		return false
	}
	l.reason = r
	l.ended.Store(true)
	l.keeper.remove(l)
	return true
}

// Extended moves the end of the validity, after the servers have confirmed an extension to ttl. It never brings the end
// nearer.
func (l *Lease) Extended(until time.Time, ttl time.Duration) {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	now := time.Now()
	if l.reason != Alive || l.over(now) {
		return
	}
	l.handOff = false
	if until = nearer(until, now); until.After(l.until) {
		l.until, l.span = until, ttl
	}
	l.schedule()
}

// Ask has renewals ask for ttl from now on.
func (l *Lease) Ask(ttl time.Duration) {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	l.ttl = ttl
	if l.reason == Alive {
		l.schedule()
	}
}

// Renewed says that the renewal is over that the keeper had asked for. One that failed is repeated after a
// pause. So is one after which the next would be due already: it would make a busy loop.
func (l *Lease) Renewed(ok bool) {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	l.renewing = false
	if l.reason != Alive {
		return
	}
	now := time.Now()
	if at, _ := l.renewAt(); !ok || at <= l.keeper.at(now) {
		l.retry = l.keeper.at(now.Add(min(max(l.pace()/20, 5*time.Millisecond), 500*time.Millisecond)))
	}
	l.schedule()
}

// pace is the TTL that decides when renewals and the end of l are due: that of the present validity, or what renewals ask
// for, if that is less. The caller holds keeper.mu.
func (l *Lease) pace() time.Duration { return min(l.span, l.ttl) }

// margin is how long before the end of the validity the loss is told, so that the timers of a busy
// machine do not make it late.
func margin(span time.Duration) time.Duration {
	return min(max(span/100, time.Millisecond), 50*time.Millisecond)
}

// renewAt returns when the next renewal is due, which may be never.
func (l *Lease) renewAt() (at instant, ok bool) {
	switch {
	case l.renewing:
		return 0, false
	case l.handOff:
		return l.retry, true
	}
	at = l.keeper.at(l.until.Add(-l.pace() * 2 / 3)) // for less than what is left it would bring nothing
	at = max(at, l.retry)
	return at, at < l.last
}

// early is how much before its time l may be renewed, together with others.
func (l *Lease) early() time.Duration {
	if l.handOff {
		return 0 // it waits to see whether it is needed at all
	}
	return min(early, l.pace()/20)
}

// schedule decides when the keeper looks at the lease next. The lease is alive, and the caller holds
// keeper.mu.
func (l *Lease) schedule() {
	l.next, l.due = l.keeper.at(l.until.Add(-margin(l.pace()))), false
	if at, ok := l.renewAt(); ok && at < l.next {
		l.next, l.due = at, true
	}
	l.keeper.fix(l)
}
