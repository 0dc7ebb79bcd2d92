// Package keepalive knows how long a lock is ours: validity, renewal and loss. It is about time only;
// what renewing means is the caller's.
package keepalive

import (
	"cmp"
	"container/heap"
	"sync/atomic"
	"time"
)

type Reason int8

const (
	Alive    Reason = iota // not ended
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
	last   time.Duration // as Keeper.at: from then on no renewal is due, but the one that asks for the TTL after a hand-off

	// All below is protected by keeper.mu; reason may be read without it.
	until    time.Time     // valid until, by the monotonic clock and by the wall clock
	ttl      time.Duration // what a renewal asks for
	handOff  time.Duration // more than 0: it was given a hand-off lease, and has still to ask for its TTL
	next     time.Duration // as Keeper.at: when that has to look at the lease, to renew it, or to tell its loss
	index    int32         // place in the keeper's heap, -1 before it is there
	reason   atomic.Int32  // a Reason
	renewing bool          // from due until Renewed
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

func (l *Lease) Until() time.Time {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	return l.until
}

func (l *Lease) TTL() time.Duration {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	return l.ttl
}

func (l *Lease) Holder() Holder { return l.holder }

// Reason returns how the lease has ended. It goes by the clock: it does not wait for a timer that is late,
// nor for a process that has just been woken up.
func (l *Lease) Reason() Reason {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	if r := Reason(l.reason.Load()); r != Alive || !l.over(time.Now()) {
		return r
	}
	return Expired
}

// Ended reports whether the end of the lease has been noticed, as it has before the Holder is told. It takes no lock.
func (l *Lease) Ended() bool { return Reason(l.reason.Load()) != Alive }

// nearer returns until as the clock has it that leaves less. The monotonic clock of most systems stands still while the
// machine sleeps, so the wall clock is asked as well. Setting that forward costs a lease, which is the safe side.
func nearer(until, now time.Time) time.Time {
	if left := until.Round(0).Sub(now.Round(0)); left < until.Sub(now) {
		return now.Add(left)
	}
	return until
}

// over reports whether the validity has ended by either clock. The lease is alive, and the caller holds keeper.mu.
func (l *Lease) over(now time.Time) bool {
	until := nearer(l.until, now)
	if now.Before(until) {
		return false
	}
	l.until = until // perhaps only the wall clock says so; it may be set back, which must revive nothing
	l.schedule(0)
	return true
}

// End ends the lease now, because its holder unlocks or for a reason that the servers gave. It returns r, or how the lease
// had ended before; an expiry that no timer has noticed yet counts.
func (l *Lease) End(r Reason, now time.Time) Reason {
	l.keeper.mu.Lock()
	if was := Reason(l.reason.Load()); was != Alive {
		l.keeper.mu.Unlock()
		return was
	}
	if l.over(now) {
		r = Expired
	}
	l.keeper.remove(l, r)
	l.keeper.mu.Unlock()
	if r != Unlocked {
		l.holder.Lost(r)
	}
	return r
}

// Extended moves the end of the validity, after the servers have confirmed an extension. It never brings the end nearer.
// Renewals ask for ttl from now on; 0: for what they did.
func (l *Lease) Extended(until time.Time, ttl time.Duration) {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	now := time.Now()
	if l.Ended() || l.over(now) {
		return
	}
	l.handOff, l.ttl = 0, cmp.Or(ttl, l.ttl)
	if until = nearer(until, now); until.After(l.until) {
		l.until = until
	}
	l.schedule(0)
}

// Renewed ends the renewal that the keeper asked for. The next one waits a moment even if it is due, as after a failure.
func (l *Lease) Renewed() {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	l.renewing = false
	if !l.Ended() {
		l.schedule(l.keeper.at(time.Now()) + min(max(l.pace()/20, 2*time.Millisecond), 500*time.Millisecond))
	}
}

// pace is the TTL that decides when renewals and the end of l are due. The caller holds keeper.mu.
func (l *Lease) pace() time.Duration { return cmp.Or(l.handOff, l.ttl) }

// loss is when the loss of l is told: some time before the end, so that the timers of a busy machine do not make it late.
// The caller holds keeper.mu.
func (l *Lease) loss() time.Duration {
	return l.keeper.at(l.until) - min(max(l.pace()/100, time.Millisecond), 50*time.Millisecond)
}

// schedule decides when the keeper looks at the lease next. A renewal is not due before earliest. The lease is alive, and
// the caller holds keeper.mu.
func (l *Lease) schedule(earliest time.Duration) {
	k := l.keeper
	l.next = l.loss()
	if l.handOff == 0 { // due when two thirds of ttl are left: with more than ttl left, a renewal would bring nothing
		earliest = max(earliest, k.at(l.until)-l.ttl*2/3)
	}
	if !l.renewing && (l.handOff > 0 || earliest < l.last) {
		l.next = min(l.next, earliest)
	}
	if l.index < 0 {
		heap.Push(&k.leases, l)
	} else {
		heap.Fix(&k.leases, int(l.index))
	}
	k.arm()
}
