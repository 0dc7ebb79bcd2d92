// Package keepalive tracks how long a lock is ours: validity, renewal and loss. It knows only time: its caller renews.
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
	Unlocked               // its holder unlocked
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
// Invariants: The end is announced before the validity is over, even while a renewal hangs. No renewal is handed out after the
// end. Only the first end counts.
type Lease struct {
	keeper *Keeper
	holder Holder
	last   time.Duration // as Keeper.at: no renewal is due from then on, except the one that asks for the TTL after a hand-off

	// keeper.mu protects the fields below. reason may be read without it.
	until    time.Time     // valid until, by the monotonic clock and by the wall clock
	ttl      time.Duration // what a renewal asks for
	handOff  time.Duration // more than 0: only a hand-off of this length was granted, and the TTL has still to be asked for
	next     time.Duration // as Keeper.at: when the keeper next looks at the lease, to renew it or to announce its loss
	index    int32         // place in the keeper's heap, -1 before it is there
	reason   atomic.Int32  // a Reason
	renewing bool          // from when the renewal is due until Renewed
}

// Terms are what Start needs to know about a lease.
type Terms struct {
	Began   time.Time
	Until   time.Time     // end of the first validity
	TTL     time.Duration // what renewals ask for, until Extended changes it
	Renew   bool          // whether there are renewals
	HandOff time.Duration // more than 0: only this much was granted, and a renewal must soon ask for the TTL
	MaxHold time.Duration // no renewals once Began is this long ago; 0: no limit
	Holder  Holder
}

// A Holder is told once that its lease was lost. The keeper holds no lock then. Lost must not block, because other Holders may
// wait to be told. It must not close the Keeper, because Close waits for Lost.
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

// Reason returns how the lease has ended, or Alive. It asks the clock: an expiry counts even if the timer is late or the
// process has just been woken up.
func (l *Lease) Reason() Reason {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	if r := Reason(l.reason.Load()); r != Alive || !l.over(time.Now()) {
		return r
	}
	return Expired
}

// Ended reports whether the end has been recorded. It is recorded before the Holder is told. Ended takes no lock.
func (l *Lease) Ended() bool { return Reason(l.reason.Load()) != Alive }

// nearer returns until by whichever clock leaves less time. On most systems the monotonic clock stops while the machine
// sleeps, so the wall clock counts too. Setting the wall clock forward loses a lease, which is the safe side.
func nearer(until, now time.Time) time.Time {
	if left := until.Round(0).Sub(now.Round(0)); left < until.Sub(now) {
		return now.Add(left)
	}
	return until
}

// over reports whether the validity has ended by either clock. The lease must be alive. The caller holds keeper.mu.
func (l *Lease) over(now time.Time) bool {
	until := nearer(l.until, now)
	if now.Before(until) {
		return false
	}
	l.until = until // if only the wall clock says so, setting it back later must not revive the lease
	l.schedule(0)
	return true
}

// End ends the lease now: its holder unlocks, the servers report a loss, or the Keeper closes. It returns r, or how the lease
// had ended before. An expiry counts even if no timer has noticed it yet.
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

// Extended moves the end of the validity, after the servers have confirmed an extension. It never moves the end closer. From
// now on renewals ask for ttl; 0: for the same TTL as before.
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

// Renewed ends the renewal that the keeper asked for. As after a failure, the next one waits a moment, even if it is due.
func (l *Lease) Renewed() {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	l.renewing = false
	if !l.Ended() {
		l.schedule(l.keeper.at(time.Now()) + min(max(l.pace()/20, 2*time.Millisecond), 500*time.Millisecond))
	}
}

// pace returns the hand-off while l has only that, else the TTL. The margins of l scale with it. The caller holds keeper.mu.
func (l *Lease) pace() time.Duration { return cmp.Or(l.handOff, l.ttl) }

// loss returns when the loss of l is announced: a little before the end, so that late timers on a busy machine do not delay
// the announcement past the end. The caller holds keeper.mu.
func (l *Lease) loss() time.Duration {
	return l.keeper.at(l.until) - min(max(l.pace()/100, time.Millisecond), 50*time.Millisecond)
}

// schedule sets when the keeper looks at l next. No renewal is due before earliest. l is alive. The caller holds keeper.mu.
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
