package redimutex

import (
	"context"
	"errors"
	"sync"
)

// Do locks m, runs f and unlocks m, also when f panics. The ctx that f gets ends when ctx does, and
// when the lease is lost, with an error that matches [ErrLost] as its cause: f should then stop, and
// not write any more. Do returns the error of LockContext(ctx, 0), or else that of f, joined with
// ErrLost if the lease was lost before f returned. If only the release failed, and so the key has to
// expire, that is logged.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.do(ctx, f, m.lock)
}

func (m *Mutex) do(ctx context.Context, f func(context.Context) error, lock func(context.Context) (*Lease, error)) error {
	m.mustBeMade()
	if !m.config.reentrant {
		l, err := lock(ctx)
		if err != nil {
			return err
		}
		return l.run(ctx, f)
	}
	if outer, ok := ctx.Value(reentryKey{m.client, m.key}).(*reentrantHold); ok && outer.enter() {
		defer outer.leave()
		if err := outer.lease.Err(); err != nil { // ctx may have been detached from that
			return err
		}
		if ctx.Err() != nil {
			return ending{ctx}.error(m.key, nil)
		}
		return f(context.WithValue(ctx, leaseKey{}, outer.lease))
	}
	l, err := lock(ctx)
	if err != nil {
		return err
	}
	n := &reentrantHold{lease: l}
	n.cond.L = &n.mu
	return l.run(context.WithValue(ctx, reentryKey{m.client, m.key}, n), func(ctx context.Context) error {
		defer n.close()
		return f(ctx)
	})
}

// run calls f with the context of the hold and unlocks.
func (l *Lease) run(ctx context.Context, f func(ctx context.Context) error) (err error) {
	m := l.mutex
	held, stop := l.context(ctx)
	defer func() {
		var unlock error
		if m.hold.CompareAndSwap(l, nil) { // else f has unlocked m itself
			unlock = l.release(context.WithoutCancel(ctx), false)
		}
		stop()
		var lost, told LostError
		switch {
		case unlock == nil:
		case !errors.As(unlock, &lost):
			m.config.log().Warn("redimutex: Do", "key", m.key, "err", unlock)
		case !errors.As(err, &told) || told != lost: // else f has returned the cause of its ctx
			err = errors.Join(err, unlock)
		}
	}()
	return f(context.WithValue(held, leaseKey{}, l))
}

// reentryKey finds the hold of an outer Do in a context.
type reentryKey struct {
	client *Client
	key    string
}

// A reentrantHold counts the calls that run inside the hold of an outer Do.
type reentrantHold struct {
	lease *Lease

	mu     sync.Mutex
	cond   sync.Cond
	inside int
	over   bool // the outermost has returned, and no call enters any more
}

func (n *reentrantHold) enter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.over {
		n.inside++
	}
	return !n.over
}

func (n *reentrantHold) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inside--
	n.cond.Broadcast()
}

// close waits until all that run inside have returned.
func (n *reentrantHold) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.inside > 0 {
		n.cond.Wait()
	}
	n.over = true
}
