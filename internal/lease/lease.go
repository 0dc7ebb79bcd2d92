// Package lease knows how long a lock is ours: validity, renewal and loss. It is about time only;
// what renewing means is the caller's.
package lease

import (
	"errors"
	"time"
)

// A Lease is one hold. It is alive from Keeper.Start until it ends, by End or because its
// validity ran out.
//
// Invariants: Done is closed before the validity ends, whatever a renewal is doing; no renewal
// starts after the end; and the first end is the only one.
type Lease struct {
	keeper *Keeper
	terms  Terms
	began  time.Time

	// All below is protected by keeper.mu.
	until    time.Time     // valid until
	ttl      time.Duration // what a renewal asks for
	span     time.Duration // what the lease was given last
	claim    bool          // it was given a claim, and has to ask for its TTL first of all
	err      error         // why it ended
	done     chan struct{} // made when somebody asks
	after    []func()      // to be called at the end
	renewing chan struct{} // a renewal is under way; closed when it is over
	failed   bool          // the last renewal failed
	queued   bool          // waits for its turn to be renewed
	next     time.Time     // when the keeper has to look at the lease
	index    int           // place in the keeper's heap, -1 outside
}

// Terms say how a lease lives.
type Terms struct {
	Began   time.Time     // zero: now
	Until   time.Time     // valid until, at first
	TTL     time.Duration // what a renewal asks for, at first
	Renew   bool          // whether there are renewals
	Claim   time.Duration // more than 0: all that was given is this, and the TTL is still to be asked for
	MaxHold time.Duration // no renewals after so long; 0: no limit
	Holder  Holder        // nil: nobody wants to know
}

// A Holder is told when its lease ends other than by End. Lost is called without locks, after Done
// was closed.
type Holder interface{ Lost(err error) }

// ErrExpired ends a lease whose validity has run out.
var ErrExpired = errors.New("expired")

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

// Holder returns the Holder of the terms.
func (l *Lease) Holder() Holder { return l.terms.Holder }

// Began returns when the lease began.
func (l *Lease) Began() time.Time { return l.began }

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done returns a channel that is closed when the lease has ended.
func (l *Lease) Done() <-chan struct{} {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	if l.done == nil {
		if l.err != nil {
			return closed
		}
		l.done = make(chan struct{})
	}
	return l.done
}

// Err returns nil while the lease is valid, and then why it ended. It goes by the clock, so it does
// not wait for a timer that is late, nor for a process that has just been woken up.
func (l *Lease) Err() error {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	if l.err == nil && !time.Now().Before(l.until) {
		return ErrExpired
	}
	return l.err
}

// AfterEnd calls f when the lease has ended, at once if it has. f must not block.
func (l *Lease) AfterEnd(f func()) {
	l.keeper.mu.Lock()
	over := l.err != nil
	if !over {
		l.after = append(l.after, f)
	}
	l.keeper.mu.Unlock()
	if over {
		f()
	}
}

// Forget drops what AfterEnd has been told so far, unless the lease has ended.
func (l *Lease) Forget() {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	clear(l.after)
	l.after = l.after[:0]
}

// End ends the lease for the reason err. If it had ended before, was is the reason of that; an
// expiry that no timer has noticed yet counts. renewing is nil, or is closed when a renewal that
// was under way is over.
func (l *Lease) End(err error) (was error, renewing <-chan struct{}) {
	l.keeper.mu.Lock()
	was, renewing = l.err, l.renewing
	late := was == nil && !time.Now().Before(l.until)
	if late {
		was, err = ErrExpired, ErrExpired
	}
	after := l.end(err)
	l.keeper.mu.Unlock()
	for _, f := range after {
		f()
	}
	if late {
		l.tell(err)
	}
	return was, renewing
}

// Lose ends the lease for the reason err, which the servers gave.
func (l *Lease) Lose(err error) {
	l.keeper.mu.Lock()
	first := l.err == nil
	after := l.end(err)
	l.keeper.mu.Unlock()
	for _, f := range after {
		f()
	}
	if first {
		l.tell(err)
	}
}

func (l *Lease) tell(err error) {
	if l.terms.Holder != nil {
		l.terms.Holder.Lost(err)
	}
}

// end does what has to be done under keeper.mu, and returns what has to be called without it.
func (l *Lease) end(err error) (after []func()) {
	if l.err != nil {
		return nil
	}
	l.err = err
	if l.done != nil {
		close(l.done)
	}
	l.keeper.remove(l)
	after, l.after = l.after, nil
	return after
}

// Extended moves the end of the validity, after the lease was extended to ttl on the servers; from
// now on renewals ask for that. It reports whether the lease was still alive.
func (l *Lease) Extended(until time.Time, ttl time.Duration) bool {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	now := time.Now()
	if l.err != nil || !now.Before(l.until) {
		return false
	}
	l.until, l.ttl, l.span, l.claim, l.failed = until, ttl, ttl, false, false
	l.schedule(now)
	return true
}

// Limit moves the end of the validity to until, if that is earlier.
func (l *Lease) Limit(until time.Time) {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	if l.err == nil && until.Before(l.until) {
		l.until = until
		l.schedule(time.Now())
	}
}

// Exclusively runs f, which extends the lease, while no renewal is under way and none can start.
// It waits for one that is until giveUp is closed, and reports whether f was run: not if the lease
// has ended.
func (l *Lease) Exclusively(giveUp <-chan struct{}, f func()) bool {
	k := l.keeper
	k.mu.Lock()
	for l.renewing != nil {
		other := l.renewing
		k.mu.Unlock()
		select {
		case <-other:
		case <-giveUp:
			return false
		}
		k.mu.Lock()
	}
	if l.err != nil {
		k.mu.Unlock()
		return false
	}
	done := make(chan struct{})
	l.renewing = done
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		close(done)
		l.renewing = nil
		if l.err == nil {
			l.schedule(time.Now())
		}
	}()
	f()
	return true
}

// margin is how long before the end of the validity the loss is told, so that the timers of a busy
// machine do not make it late.
func margin(span time.Duration) time.Duration {
	return min(max(span/100, time.Millisecond), 50*time.Millisecond)
}

// renewAt returns when the next renewal is due, which may be never.
func (l *Lease) renewAt(now time.Time) (at time.Time, ok bool) {
	if !l.terms.Renew && !l.claim || l.queued || l.renewing != nil {
		return time.Time{}, false
	}
	at = l.until.Add(-l.span * 2 / 3)
	if l.claim {
		at = l.began.Add(l.span / 10) // a claim is short, and holds that are shorter still need no more
	}
	if l.failed {
		at = now.Add(min(max(l.span/20, 5*time.Millisecond), 500*time.Millisecond))
	}
	return at, l.claim || l.terms.MaxHold == 0 || at.Sub(l.began) < l.terms.MaxHold
}

// schedule decides when the keeper looks at the lease next. The caller holds keeper.mu.
func (l *Lease) schedule(now time.Time) {
	l.next = l.until.Add(-margin(l.span))
	if at, ok := l.renewAt(now); ok && at.Before(l.next) {
		l.next = at
	}
	l.keeper.fix(l)
}
