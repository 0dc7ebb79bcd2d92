package redimutex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redimutex/redimutex/internal/lease"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A Lease is one hold of a Mutex, from Lock to Unlock. It stays what it was when the Mutex is
// locked again: code that keeps its Lease never mistakes another hold for its own.
//
// It is valid from the moment just before the lock was asked for, for one TTL less the drift that
// clocks may have (1% and 2 ms), as in the Redlock algorithm. A renewal, every third of the TTL, moves
// the end. All times are on this process's monotonic clock.
type Lease struct {
	mutex *Mutex
	line  *line
	token string
	grant quorum.Grant
	claim time.Duration // more than 0: what the grant was given for, instead of the TTL
	life  lease.Lease
}

// Token returns the random value that the key has on the server during this hold. Who has it can
// release the lock; treat it as a secret.
func (l *Lease) Token() string { return l.token }

// Fence returns the fencing token of the hold: 0, without fencing.
func (l *Lease) Fence() int64 { return l.grant.Fence }

// Until returns when the validity ends, if the lease is not renewed before. The time has a monotonic
// reading, so comparing it to [time.Now] is not disturbed when the wall clock is set.
func (l *Lease) Until() time.Time { return l.life.Until() }

// Done returns a channel that is closed when the hold ends: by Unlock, or by loss. A loss that the
// servers tell is known within a third of the TTL, by the next renewal; one that they can't tell,
// because they don't answer, when the validity ends at the latest, whatever a renewal is doing.
func (l *Lease) Done() <-chan struct{} { return l.life.Done() }

// Err returns nil while the hold is valid, then an error that matches [ErrUnlocked] or [ErrLost].
// It goes by the clock: also in a process that has just woken up, it is not nil after Until.
func (l *Lease) Err() error { return l.explain(l.life.Err()) }

// explain names the key in the reason for which the hold has ended.
func (l *Lease) explain(err error) error {
	switch {
	case err == nil || errors.Is(err, ErrLost):
		return err
	case errors.Is(err, ErrUnlocked):
		return fmt.Errorf("redimutex: %q: %w", l.mutex.key, ErrUnlocked)
	case errors.Is(err, ErrClosed):
		return LostError{l.mutex.key, Closed}
	}
	return LostError{l.mutex.key, Expired}
}

// Context returns a context that is cancelled when parent is and when the hold ends; then its
// [context.Cause] is Err.
func (l *Lease) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	l.life.AfterEnd(func() { cancel(l.Err()) })
	return ctx
}

// Extend makes the lease valid for ttl from now, longer or shorter than it was, and has renewals, if
// there are any, ask for ttl from now on. It waits for a renewal that is under way.
//
// The error matches [ErrLost] when the lease was lost, [ErrUnlocked] after Unlock, [ErrUnavailable]
// when too few servers answered, and the cause of ctx when that ended; with the latter two the lease
// goes on as it was, but, until it is renewed, no longer than ttl, and some servers may keep it longer. A ttl below 10 ms is an error, and changes nothing.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if ttl < minTTL {
		return fmt.Errorf("redimutex: %q: Extend(%v): a lease has to last %v at least", l.mutex.key, ttl, minTTL)
	}
	if err := l.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ended(ctx, l.mutex.key, nil)
	}
	req := l.request()
	req.TTL = ttl
	e := quorum.Extension{Request: &req}
	if !l.life.Exclusively(ctx.Done(), func() {
		// A server may shorten the lease without our hearing of it, so the new end counts from now on.
		l.life.Limit(time.Now().Add(ttl - quorum.Drift(ttl)))
		l.mutex.client.quorum.Extend(ctx, []*quorum.Extension{&e})
		l.extended(&e)
	}) {
		if err := l.Err(); err != nil {
			return err
		}
		return ended(ctx, l.mutex.key, nil)
	}
	if e.Err == nil {
		return l.Err()
	}
	if ctx.Err() != nil && !errors.Is(e.Err, ErrLost) {
		return ended(ctx, l.mutex.key, e.Err)
	}
	return e.Err
}

// release ends the hold and gives the lock back.
func (l *Lease) release(ctx context.Context) error {
	m, c := l.mutex, l.mutex.client
	now := time.Now()
	was, renewing := l.life.End(ErrUnlocked)
	held := now.Sub(l.grant.At)
	req := l.request()
	if rest := m.config.minHold - held; rest > 0 {
		req.Keep = max(rest, time.Millisecond)
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	var err error
	switch {
	case errors.Is(was, ErrClosed):
		// Nothing that works in the background is left, so this is done here, as far as it can be.
		c.quorum.Release(ctx, &req, l.grant) //nolint:errcheck // the loss is what the caller has to know
		err = l.explain(was)
	case was != nil:
		// Nothing of what the servers say can change that; what is left of the lock there is cleaned up.
		c.quorum.Sweep(&req, l.grant)
		err = l.explain(was)
	default:
		if renewing == nil {
			req.Start = now
		} else {
			l.settle(ctx, renewing)
		}
		if failed := c.quorum.Release(ctx, &req, l.grant); failed != nil {
			f := failed.(*quorum.Failure) //nolint:errorlint,forcetypeassert // what Release returns
			c.counters.failures(f)
			err = m.explain(f)
			if ctx.Err() != nil && !errors.Is(err, ErrLost) {
				err = ended(ctx, m.key, err)
			}
		}
		if err != nil {
			l.count(err)
		}
	}
	c.counters.released.Add(1)
	c.counters.holdTime.Add(int64(held))
	l.line.Leave()
	c.part(m.key, l.line)
	if t := m.config.trace; t != nil && t.Released != nil {
		t.Released(l.event(Event{Err: err}))
	}
	return err
}

// settle waits until a renewal that was under way is over, so that none runs after the release. It
// waits no longer than the deadline that such a renewal carries.
func (l *Lease) settle(ctx context.Context, renewing <-chan struct{}) {
	timer := time.NewTimer(l.mutex.config.nodeTimeout)
	defer timer.Stop()
	select {
	case <-renewing:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// count counts a loss that only the release has noticed.
func (l *Lease) count(err error) {
	var lost LostError
	if errors.As(err, &lost) {
		l.mutex.client.counters.lost(lost.Reason)
		if t := l.mutex.config.trace; t != nil && t.Lost != nil {
			t.Lost(l.event(Event{Err: err}))
		}
	}
}

// request describes the lock to the servers.
func (l *Lease) request() server.Request {
	c := l.mutex.config
	req := server.Request{
		Key: l.mutex.key, Token: l.token, TTL: c.ttl, Timeout: c.nodeTimeout,
		Fencing: c.fencing, Guard: c.guard, Replicas: c.replicas, ReplicaTimeout: c.replicaWait,
		Queue: c.queue,
	}
	if c.queue {
		req.Claim = l.mutex.claim()
	}
	return req
}

func (l *Lease) terms() lease.Terms {
	c := l.mutex.config
	return lease.Terms{Began: l.grant.At, Until: l.grant.Until, TTL: c.ttl, Renew: c.renew, Claim: l.claim, MaxHold: c.maxHold, Holder: (*holder)(l)}
}

// event fills in what every event of a hold has.
func (l *Lease) event(e Event) Event {
	e.Key, e.Owner, e.Fence, e.Held = l.mutex.key, l.mutex.config.owner, l.Fence(), time.Since(l.life.Began())
	return e
}
