package redimutex

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/lock"
)

// Acquire locks m as LockContext(ctx, 0) does, and returns the hold: a handle for code in which Lock and Unlock are far
// from each other, to be ended by [Lease.Release]. The errors are those of [Mutex.LockContext].
//
// The hold is that of m as well: [Mutex.Lease] returns it, and [Mutex.Unlock] ends it.
func (m *Mutex) Acquire(ctx context.Context) (*Lease, error) { return m.lock(ctx) }

// TryAcquire tries once to lock m, as [Mutex.TryLockContext] does, with its errors, and returns the hold.
func (m *Mutex) TryAcquire(ctx context.Context) (*Lease, error) { return m.tryLock(ctx) }

// Release ends this hold and no other, as [Mutex.UnlockContext] does: whatever it returns, the hold is over in
// this process, and ctx bounds the wait for the servers in the same way. A Lease that a process keeps after its end never
// ends the next hold.
//
// The error matches
//   - [ErrUnlocked] when the hold was ended before, by Release or by Unlock. Of those that are called at the same time,
//     one ends it, and the others get this error;
//   - [ErrLost] when the lease had ended before: the work under the lock may have overlapped with another holder's.
//     Release is needed all the same, for the next Lock of this process, and says so once. With [WithLeaseReuse] see
//     [Mutex.UnlockContext];
//   - [ErrUnavailable] when too few servers answered: the lock is released in the background, or expires; and the cause
//     of ctx, if that ended the wait.
func (l *Lease) Release(ctx context.Context) error {
	ended := ctx.Err() != nil // a nil ctx panics before anything is changed
	if l.claim() {
		return l.release(ctx, ended)
	}
	if l.excuse() {
		return nil
	}
	return unlockedError(l.of.key, "Release")
}

// claim reports whether the caller is the one that ends the hold; then it has to release it.
func (l *Lease) claim() bool {
	if !l.claimed.CompareAndSwap(false, true) {
		return false
	}
	if l.current != nil {
		l.current.CompareAndSwap(l, nil)
	}
	if l.reader.Load() {
		l.of.reads.claimed(l)
	}
	return true
}

// excuse reports whether the hold was handed over, and this is the one release that is accepted after that.
func (l *Lease) excuse() bool {
	if !l.excused.CompareAndSwap(true, false) {
		return false
	}
	l.current.CompareAndSwap(l, nil)
	return true
}

// release ends the hold, which the caller has claimed. The lock is given back unless it is parked for the next hold.
// ended says that ctx had ended before.
func (l *Lease) release(ctx context.Context, ended bool) error {
	o := l.of
	now := time.Now()
	r, f := l.hold.Release(ctx, now)
	var err error
	switch {
	case r != keepalive.Unlocked:
		err = l.reason(r)
	case f != nil:
		err = o.serversError(f)
		if !ended && lock.Over(ctx) {
			err = ending{ctx}.error(o.key, err)
		}
	}
	l.ended(now, err)
	return err
}

// ended counts and reports the end of the hold.
func (l *Lease) ended(now time.Time, err error) {
	o, n := l.of, &l.of.client.counters
	held := now.Sub(l.hold.Began())
	n.released.Add(1)
	n.holdTime.Add(int64(held))
	if o.traced() {
		o.emit(kindReleased, Event{Lease: l, Held: held, Err: err})
	}
}
