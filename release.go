package redimutex

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/lock"
)

// claim reports whether the caller is the one that ends the hold; then it has to release it.
func (l *Lease) claim() bool {
	if !l.claimed.CompareAndSwap(false, true) {
		return false
	}
	if l.current != nil {
		l.current.CompareAndSwap(l, nil)
	}
	return true
}

// release ends the hold, which the caller has claimed. The lock is given back unless it is parked for the next hold.
// ended says that ctx had ended before.
func (l *Lease) release(ctx context.Context, ended bool) error {
	o, n := l.of, &l.of.client.counters
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
	held := now.Sub(l.hold.Began())
	n.released.Add(1)
	n.holdTime.Add(int64(held))
	if o.traced() {
		o.emit(kindReleased, Event{Lease: l, Held: held, Err: err})
	}
	return err
}
