package redimutex

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// Do locks m, runs f and unlocks m, also when f panics. The ctx of f ends when the ctx of Do ends. It also ends when the lease
// is lost, with a cause that matches [ErrLost]: f should then stop, and write nothing more. [LeaseFrom] returns the hold.
//
// Do returns the error of LockContext(ctx, 0), or else that of f. If the lease was lost before f returned, the error also
// matches ErrLost; [WithLeaseReuse] names an exception. If only the release failed, Do logs that, and the key expires.
//
// A Do of the same key inside f, with the ctx of f, runs inside this hold if the Mutex has [WithReentrancy]. Otherwise the
// inner Do would wait for the outer one, so it returns an error at once, which matches [ErrLocked]. So does every other method
// that locks with that ctx the same key of the same pools. To wait in another goroutine, use another ctx.
func (m *exclusive) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.do(ctx, f, 0)
}

// do runs f in a hold of its own; or, with [WithReentrancy], in the hold of an outer Do that has all keys of o.
func (o *object) do(ctx context.Context, f func(context.Context) error, timeout time.Duration) error {
	must(o.client != nil, zeroValue)
	must(f != nil, "Do needs a function, and got nil")
	if o.config.reentrant {
		if outer := o.around(ctx); outer != nil && !o.upgrades(outer) && outer.lease.of.covers(o) && outer.users.enter() {
			defer outer.users.leave()
			return outer.run(ctx, f)
		}
	}
	l, err := o.acquire(ctx, timeout)
	if err != nil {
		return err
	}
	return l.run(ctx, f)
}

func (l *Lease) run(ctx context.Context, f func(ctx context.Context) error) (err error) {
	d := &doing{lease: l, users: &users{none: make(chan struct{})}, outer: innermost(ctx)}
	held, stop := l.context(context.WithValue(ctx, doingKey{}, d))
	defer func() {
		d.users.leave()
		<-d.users.none
		unlock := l.unlock(context.WithoutCancel(ctx), "Do")
		stop()
		var lost, told *LostError
		switch {
		case unlock == nil, errors.Is(unlock, ErrUnlocked): // f has released the hold itself
		case !errors.As(unlock, &lost):
			l.of.Logger().Warn("redimutex: Do", "key", l.of.key, "err", unlock)
		case !errors.As(err, &told) || *told != *lost: // if equal, f has returned the cause of its ctx
			err = errors.Join(err, unlock)
		}
	}()
	return f(held)
}

// A doing is a Do that runs. The ctx of its f carries it, for calls of the same key inside f and for [LeaseFrom].
type doing struct {
	lease *Lease
	users *users
	outer *doing // the next outer Do, of any key
}

type doingKey struct{}

// innermost returns the doing of the innermost Do that ctx comes from, or nil.
func innermost(ctx context.Context) *doing {
	d, _ := ctx.Value(doingKey{}).(*doing)
	return d
}

// LeaseFrom returns the hold of the innermost Do that ctx comes from, of any kind of lock, or nil if there is none. The hold
// of a Do that runs inside an outer Do ([WithReentrancy]) is that of the outer Do. The Lease has ended when its Do returns.
func LeaseFrom(ctx context.Context) *Lease {
	if d := innermost(ctx); d != nil {
		return d.lease
	}
	return nil
}

func (d *doing) run(ctx context.Context, f func(context.Context) error) error {
	if err := d.lease.Err(); err != nil { // ctx may not have ended: f may have detached it
		return err
	}
	if ctx.Err() != nil {
		return endedBy(ctx, d.lease.of.key, nil)
	}
	if between := innermost(ctx); between != d { // a Do of another key lies between
		ctx = context.WithValue(ctx, doingKey{}, &doing{lease: d.lease, users: d.users, outer: between})
	}
	return f(ctx)
}

// around returns the innermost Do around ctx that has the servers of o and still holds a key of o, or nil. It ignores
// Semaphores on both sides: a permit excludes no other holder, and another kind can't lock its key.
func (o *object) around(ctx context.Context) *doing {
	permit := o.config.terms.Kind == server.Semaphore
	for d := innermost(ctx); d != nil; d = d.outer {
		of := d.lease.of
		if !of.client.shares(o.client) || d.lease.end.Load() != nil || permit || of.config.terms.Kind == server.Semaphore {
			continue
		}
		if of.has(o.key) || slices.ContainsFunc(o.more, of.has) {
			return d
		}
	}
	return nil
}

func (o *object) has(key string) bool { return o.key == key || slices.Contains(o.more, key) }

// covers reports whether o has all keys of other, so that a Do of other can run inside a hold of o.
func (o *object) covers(other *object) bool {
	return o.has(other.key) && !slices.ContainsFunc(other.more, func(k string) bool { return !o.has(k) })
}

// upgrades reports whether outer is a reader, and o would lock for writing.
func (o *object) upgrades(outer *doing) bool {
	return outer.lease.reads() && o.config.terms.Kind != server.Reader
}

// users counts a Do and the Dos that run inside its hold. The hold is released when all of them have left.
type users struct {
	inside atomic.Int64  // how many have not left, less one; -1: all have left, and no Do may enter any more
	none   chan struct{} // closed when all have left
}

// enter reports whether another Do may run inside the hold. If so, that Do has to call leave.
func (u *users) enter() bool {
	for {
		n := u.inside.Load()
		if n < 0 || u.inside.CompareAndSwap(n, n+1) {
			return n >= 0
		}
	}
}

func (u *users) leave() {
	if u.inside.Add(-1) < 0 {
		close(u.none)
	}
}
