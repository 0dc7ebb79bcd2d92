package redimutex

import (
	"context"
	"errors"
)

// Do locks m, runs f and unlocks m, also when f panics. The ctx of f ends when ctx does. It also ends when the lease
// is lost, with a cause that matches [ErrLost]: f should then stop, and write nothing more. [LeaseFrom] returns the
// hold.
//
// Do returns the error of LockContext(ctx, 0), or that of f. If the lease was lost before f returned, ErrLost is
// joined to the error of f; with [WithLeaseReuse], only if the loss is known by then. If only the release failed,
// that is logged, and the key expires.
//
// A Do of the same key inside f, with the ctx of f, runs inside this hold if the Mutex has [WithReentrancy].
// Otherwise it is an error at once, which matches [ErrLocked], because it would wait for itself. This is true of
// every method that would wait with that ctx for the same key of the same Client. To wait in another goroutine, use
// another ctx.
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
