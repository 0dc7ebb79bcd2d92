package redimutex

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// Do locks m, runs f and unlocks m, also when f panics. The ctx of f ends when ctx does. It also ends when the lease is
// lost, with a cause that matches [ErrLost]: f should then stop, and write nothing more. [LeaseFrom] returns the hold.
//
// Do returns the error of LockContext(ctx, 0), or that of f. If the lease was lost before f returned, ErrLost is joined to the
// error of f; see [WithLeaseReuse] for the exception. If only the release failed, that is logged, and the key expires.
//
// A Do of the same key inside f, with the ctx of f, runs inside this hold if the Mutex has [WithReentrancy]. Otherwise
// it is an error at once, which matches [ErrLocked], because it would wait for itself. This is true of every method
// that gets that ctx for the same key of the same pools. To wait in another goroutine, use another ctx.
func (m *exclusive) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.do(ctx, f, 0)
}

// do runs f in a hold of its own; or, with [WithReentrancy], in that of a Do around it.
func (o *object) do(ctx context.Context, f func(context.Context) error, timeout time.Duration) error {
	must(o.client != nil, zero)
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
		case unlock == nil, errors.Is(unlock, ErrUnlocked): // f has released it itself
		case !errors.As(unlock, &lost):
			l.of.Logger().Warn("redimutex: Do", "key", l.of.key, "err", unlock)
		case !errors.As(err, &told) || *told != *lost: // else f has returned the cause of its ctx
			err = errors.Join(err, unlock)
		}
	}()
	return f(held)
}

// A doing is a Do that runs. The ctx of its f leads to it: for calls of the same key inside f, and for [LeaseFrom].
type doing struct {
	lease *Lease
	users *users
	outer *doing // the Do around this one, of whatever key
}

type doingKey struct{}

// innermost returns the doing whose f got ctx, or nil.
func innermost(ctx context.Context) *doing {
	d, _ := ctx.Value(doingKey{}).(*doing)
	return d
}

// LeaseFrom returns the hold of the innermost Do, of any kind of lock, that ctx comes from; nil if there is none. A
// Do that runs inside the hold of another one ([WithReentrancy]) has that hold. After the Do has returned, it is a
// Lease that has ended.
func LeaseFrom(ctx context.Context) *Lease {
	if d := innermost(ctx); d != nil {
		return d.lease
	}
	return nil
}

func (d *doing) run(ctx context.Context, f func(context.Context) error) error {
	if err := d.lease.Err(); err != nil { // ctx may have been detached from that
		return err
	}
	if ctx.Err() != nil {
		return endedBy(ctx, d.lease.of.key, nil)
	}
	if between := innermost(ctx); between != d { // a Do of another key
		ctx = context.WithValue(ctx, doingKey{}, &doing{lease: d.lease, users: d.users, outer: between})
	}
	return f(ctx)
}

// around returns the Do over the same servers that has given ctx and still holds a key of o, or nil. A Semaphore
// counts on neither side: a permit keeps no other holder out, and its key is no lock of another kind.
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

// covers reports whether o has all keys of other, which can then run inside a hold of o.
func (o *object) covers(other *object) bool {
	return o.has(other.key) && !slices.ContainsFunc(other.more, func(k string) bool { return !o.has(k) })
}

// upgrades reports whether o would make a writer of the reader that outer is.
func (o *object) upgrades(outer *doing) bool {
	return outer.lease.reads() && o.config.terms.Kind != server.Reader
}

// users are a Do and those that run inside its hold, which is released when the last one has left.
type users struct {
	inside atomic.Int64  // besides the Do itself; -1: all have left, and none enters any more
	none   chan struct{} // closed when all have left
}

// enter reports whether a Do may run inside the hold; then it has to leave.
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
