package redimutex

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/lock"
	"github.com/redimutex/redimutex/internal/quorum"
)

// A Lease is one hold of a lock, from Lock to Unlock or [Lease.Release]. The next hold of the Mutex is another Lease, so code
// that keeps its Lease never mistakes another hold for its own. It is safe for concurrent use, and must not be copied.
//
// Its validity begins just before the request for the lock is sent, and lasts for one TTL less an allowance for clock drift
// (1% and 2 ms), as in the Redlock algorithm. A renewal, every third of the TTL, moves the end. The package documentation says
// which clocks decide the end, and how soon a loss is reported.
type Lease struct {
	of     *object
	hold   lock.Hold
	reader atomic.Bool            // a writer that was downgraded
	end    atomic.Pointer[handed] // set by the one call that ends the hold: byRelease, or its hand-over
}

// byRelease is the end of a hold that was released, and not handed over.
var byRelease = new(handed)

func newLease(o *object) *Lease {
	l := &Lease{of: o}
	l.hold.Observer = (*observer)(l)
	return l
}

// Token returns the token of this hold on the server: a random UUID, and the label of [WithOwner]. It is the value of the key;
// of a reader or a permit, a member of a set. A process that knows the token can release the lock: treat it as a secret.
func (l *Lease) Token() string { return l.hold.Token() }

// Fence returns the fencing token of the hold, or 0 without [WithFencing].
func (l *Lease) Fence() int64 { return l.hold.Fence() }

// Until returns when the validity ends unless it is renewed before. If Err is not nil, the validity has already ended. The
// time has a monotonic reading: setting the wall clock does not disturb a comparison with [time.Now].
func (l *Lease) Until() time.Time { return l.hold.Until() }

// Done returns a channel that is closed when the hold ends. Unlock closes it before it sends the release. A loss that a server
// can report closes it at the next renewal, within a third of the TTL; any other loss by the time the validity ends. If the
// lease ended while the machine was suspended, it is closed within about a second afterwards.
func (l *Lease) Done() <-chan struct{} { return l.hold.Done() }

// Err returns nil while the hold is valid, then an error that matches [ErrUnlocked] or [ErrLost]. It checks the clock: after
// Until it is not nil, even in a process that has just woken up. A loss that only Unlock finds is not here.
func (l *Lease) Err() error { return l.reason(l.hold.Reason()) }

var reasons = map[keepalive.Reason]Reason{
	keepalive.Expired: Expired, keepalive.Deleted: Deleted, keepalive.Taken: Taken, keepalive.Closed: Closed,
}

func (l *Lease) reason(r keepalive.Reason) error {
	switch r {
	case keepalive.Alive:
		return nil
	case keepalive.Unlocked:
		return fmt.Errorf("redimutex: %q: %w", l.of.key, ErrUnlocked)
	}
	return &LostError{l.of.keyAt(l.hold.LostKey()), reasons[r]}
}

// Context returns a context that is cancelled when parent is cancelled or the hold ends. The end of the hold cancels it just
// before Done is closed, with Err as its [context.Cause]. Its resources are freed in both cases: there is nothing to stop.
func (l *Lease) Context(parent context.Context) context.Context {
	ctx, stop := l.context(parent)
	context.AfterFunc(ctx, stop)
	return ctx
}

type heldKey struct{ l *Lease } // marks a ctx that ends with l; see lasting

// context is Context, but the hold keeps a reference to the new context until stop is called. stop also cancels the context.
func (l *Lease) context(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, heldKey{l}, true))
	forget := l.hold.AfterEnd(func() { cancel(l.Err()) })
	return ctx, func() {
		forget()
		if ctx.Err() == nil {
			cancel(cmp.Or(l.Err(), l.reason(keepalive.Unlocked))) // Err may still be nil while another caller unlocks
		}
	}
}

// Extend makes the lease valid for ttl, less 1% and 2 ms, from now at least. Later renewals ask for ttl, too. Extend never
// brings the end nearer: if ttl is less than the time left, the end stays where it is. The next renewal then comes when two
// thirds of ttl are left. Extend concerns this hold alone: even with [WithLeaseReuse] the lock is released after it. Only
// readers that share a lease by WithLeaseReuse share an Extend: it lasts for all of them, until the last hold has ended.
//
// The error matches [ErrLost] when the lease was lost, [ErrUnlocked] after Unlock, [ErrUnavailable] when too few servers
// answered, a [NodeError] alone when they refused, and the cause of ctx when that ended. After the last three the lease goes
// on, and some servers may keep the key for longer. A ttl below 10 ms or above 100 years is an error that changes nothing.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	o := l.of
	if ttl < minTTL || ttl > maxTTL {
		return fmt.Errorf("redimutex: %q: Extend(%v): a lease lasts %v at least, and %v at most", o.key, ttl, minTTL, maxTTL)
	}
	if err := l.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return endedBy(ctx, o.key, nil)
	}
	r, f := l.hold.Extend(ctx, ttl)
	if r == keepalive.Alive && f != nil {
		return o.unsettled(ctx, f)
	}
	return l.reason(r)
}

// Release ends this hold and no other. Otherwise it works as [Mutex.UnlockContext], with the same errors. The error matches
// [ErrUnlocked] when Release or Unlock has already ended the hold: of several calls at the same time one ends the hold, and
// the others get this error. A ctx that ends with this hold does not end the wait.
//
// Release a lost lease too: until then no other goroutine of the Client can lock that Mutex, MutexAll or writer.
func (l *Lease) Release(ctx context.Context) error { return l.unlock(ctx, "Release") }

// lasting returns the ctx for the release of l. That is ctx; or a copy that never ends, if ctx has already ended or ends with
// l. So the release always has its node timeout. A nil ctx panics here, before anything is changed.
func (l *Lease) lasting(ctx context.Context) context.Context {
	if ctx.Err() != nil || ctx.Value(heldKey{l}) != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// unlock ends the hold, unless another call has ended it. The verb is for the error.
func (l *Lease) unlock(ctx context.Context, verb string) error {
	if claimed, err := l.release(ctx); claimed {
		return err
	}
	// After a hand-over one release is accepted.
	if g := l.end.Load(); g != byRelease && g.released.CompareAndSwap(false, true) {
		l.of.hold.CompareAndSwap(l, nil)
		return nil
	}
	return unlockedError(l.of.key, verb)
}

// release ends the hold, and reports in claimed whether this call has done so. If so, it also releases the lock on the
// servers, or parks it for the next hold.
func (l *Lease) release(ctx context.Context) (claimed bool, err error) {
	ctx = l.lasting(ctx)
	if !l.end.CompareAndSwap(nil, byRelease) {
		return false, nil
	}
	l.of.hold.CompareAndSwap(l, nil)
	now := time.Now()
	r, f := l.hold.Release(ctx, now)
	return true, l.ended(ctx, now, r, f)
}

// ended counts and reports the end of the hold, and returns its error.
func (l *Lease) ended(ctx context.Context, now time.Time, r keepalive.Reason, f *quorum.Failure) (err error) {
	o, c := l.of, l.of.client
	switch {
	case r != keepalive.Unlocked:
		err = l.reason(r)
	case f != nil:
		err = o.unsettled(ctx, f)
	}
	held := now.Sub(l.hold.Began())
	c.released.Add(1)
	c.holdTime.Add(int64(held))
	o.emit(func(t *Trace) func(Event) { return t.Released }, Event{Lease: l, Held: held, Err: err})
	return err
}
