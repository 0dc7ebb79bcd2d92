package redimutex

import (
	"context"
	"errors"
)

// Do locks m, runs f and unlocks m, also when f panics. The ctx that f gets ends when ctx does, and
// when the lease is lost, with an error that matches [ErrLost] as its cause: f should then stop, and
// not write any more. [LeaseFrom] returns the hold. Do returns the error of LockContext(ctx, 0), or else that
// of f, joined with ErrLost if the lease was lost before f returned; with [WithLeaseReuse], if that is known by then.
// If only the release failed, and so the key has to expire, that is logged.
//
// A Do of the same key inside f, with the ctx that f got, runs inside this hold if the Client or the Mutex has
// [WithReentrancy]. Without it, it would wait for itself: it is an error at once, which matches [ErrLocked]. So it is
// for every other method that would wait with that ctx for a Mutex of the same Client and key. Do the same
// outside of f, or with another ctx if another goroutine is to wait.
func (m *exclusive) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.do(ctx, f, false)
}

// do runs f in a hold of its own; or, with [WithReentrancy], in that of a Do around it.
func (o *object) do(ctx context.Context, f func(context.Context) error, once bool) error {
	o.mustBeMade()
	if o.config.reentrant {
		if outer := o.around(ctx); outer != nil && !o.upgrades(outer) && outer.lease.of.covers(o) && outer.guests.enter() {
			defer outer.guests.leave()
			return outer.run(ctx, f)
		}
	}
	l, err := o.acquire(ctx, once)
	if err != nil {
		return err
	}
	return l.run(ctx, f)
}

// run calls f with the context of the hold and releases it.
func (l *Lease) run(ctx context.Context, f func(ctx context.Context) error) (err error) {
	o := l.of
	d := &doing{lease: l, guests: newGuests(), outer: innermost(ctx)}
	held, stop := l.context(d.context(ctx))
	defer func() {
		var unlock error
		if l.claim() { // else f has released it itself
			unlock = l.release(context.WithoutCancel(ctx), false)
		} else {
			l.excuse()
		}
		stop()
		var lost, told *LostError
		switch {
		case unlock == nil:
		case !errors.As(unlock, &lost):
			o.config.log().Warn("redimutex: Do", "key", o.key, "err", unlock)
		case !errors.As(err, &told) || *told != *lost: // else f has returned the cause of its ctx
			err = errors.Join(err, unlock)
		}
	}()
	defer d.guests.close()
	return f(held)
}
