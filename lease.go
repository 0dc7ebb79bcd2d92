package redimutex

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/quorum"
)

// A Lease is one hold of a Mutex, from Lock to Unlock. It stays what it was when the Mutex is
// locked again: code that keeps its Lease never mistakes another hold for its own.
//
// It is valid from the moment just before the lock was asked for, for one TTL less the drift that
// clocks may have (1% and 2 ms), as in the Redlock algorithm. A renewal, every third of the TTL, moves
// the end. All times are on this process's monotonic clock.
type Lease struct {
	tenure *tenure
	fence  int64
	began  time.Duration // since epoch
	watch  atomic.Pointer[watch]
}

// A watch is what has to happen at the end of a hold, and how that came. Most holds are short, and
// have none before their end.
type watch struct {
	mu    sync.Mutex
	err   error         // why the hold ended, if that has been noticed
	done  chan struct{} // made when somebody asks
	after []func()      // to be called at the end
}

// unlocked is the watch of all holds that Unlock has ended before somebody asked.
var unlocked = &watch{err: ErrUnlocked, done: alreadyDone}

func (l *Lease) watched() *watch {
	if w := l.watch.Load(); w != nil {
		return w
	}
	l.watch.CompareAndSwap(nil, new(watch))
	return l.watch.Load()
}

// Token returns the random value that the key has on the server during this hold. Who has it can
// release the lock; treat it as a secret.
func (l *Lease) Token() string { return l.tenure.token }

// Fence returns the fencing token of the hold: 0, without fencing.
func (l *Lease) Fence() int64 { return l.fence }

// Until returns when the validity ends, if the lease is not renewed before. The time has a monotonic
// reading, so comparing it to [time.Now] is not disturbed when the wall clock is set.
func (l *Lease) Until() time.Time { return l.tenure.life.Until() }

var alreadyDone = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done returns a channel that is closed when the hold ends: by Unlock, or by loss. A loss that the
// servers tell is known within a third of the TTL, by the next renewal; one that they can't tell,
// because they don't answer, when the validity ends at the latest, whatever a renewal is doing.
func (l *Lease) Done() <-chan struct{} {
	w := l.watched()
	w.mu.Lock()
	switch {
	case w.done != nil:
	case w.err != nil:
		w.done = alreadyDone
	default:
		w.done = make(chan struct{})
		defer l.tenure.life.AfterEnd(l.lost)
	}
	defer w.mu.Unlock() // runs before AfterEnd, which may call lost at once
	return w.done
}

// Err returns nil while the hold is valid, then an error that matches [ErrUnlocked] or [ErrLost].
// It goes by the clock: also in a process that has just woken up, it is not nil after Until.
func (l *Lease) Err() error {
	var err error
	if w := l.watch.Load(); w != nil {
		w.mu.Lock()
		err = w.err
		w.mu.Unlock()
	}
	if err == nil {
		err = l.tenure.life.Err()
	}
	return l.tenure.explain(err)
}

// Context returns a context that is cancelled when parent is and when the hold ends; then its
// [context.Cause] is Err.
func (l *Lease) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	l.afterEnd(func() { cancel(l.Err()) })
	return ctx
}

// afterEnd calls f when the hold has ended, at once if it has.
func (l *Lease) afterEnd(f func()) {
	l.Done() // so that a loss is noticed
	w := l.watched()
	w.mu.Lock()
	over := w.err != nil
	if !over {
		w.after = append(w.after, f)
	}
	w.mu.Unlock()
	if over {
		f()
	}
}

// lost ends the hold because its tenure has ended.
func (l *Lease) lost() { l.end(l.tenure.life.Err()) }

// end ends the hold for the reason err, unless it has ended before.
func (l *Lease) end(err error) {
	if err == ErrUnlocked && l.watch.CompareAndSwap(nil, unlocked) { //nolint:errorlint // not even wrapped
		return
	}
	w := l.watched()
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return
	}
	w.err = err
	if w.done != nil {
		close(w.done)
	}
	after := w.after
	w.after = nil
	w.mu.Unlock()
	for _, f := range after {
		f()
	}
}

// Extend makes the lease valid for ttl from now, longer or shorter than it was, and has renewals, if
// there are any, ask for ttl from now on. It waits for a renewal that is under way.
//
// The error matches [ErrLost] when the lease was lost, [ErrUnlocked] after Unlock, [ErrUnavailable]
// when too few servers answered, and the cause of ctx when that ended; with the latter two the lease
// goes on as it was, but, until it is renewed, no longer than ttl, and some servers may keep it longer. A ttl below 10 ms is an error, and changes nothing.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	t := l.tenure
	if ttl < minTTL {
		return fmt.Errorf("redimutex: %q: Extend(%v): a lease has to last %v at least", t.mutex.key, ttl, minTTL)
	}
	if err := l.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ended(ctx, t.mutex.key, nil)
	}
	req := t.request()
	req.TTL = ttl
	e := quorum.Extension{Request: &req}
	if !t.life.Exclusively(ctx.Done(), func() {
		if ttl < t.mutex.config.ttl {
			t.reuse.end() // whose end is counted on the TTL
		}
		// A server may shorten the lease without our hearing of it, so the new end counts from now on.
		t.life.Limit(time.Now().Add(ttl - quorum.Drift(ttl)))
		t.mutex.client.quorum.Extend(ctx, []*quorum.Extension{&e})
		t.extended(&e)
	}) {
		if err := l.Err(); err != nil {
			return err
		}
		return ended(ctx, t.mutex.key, nil)
	}
	if e.Err == nil {
		return l.Err()
	}
	if ctx.Err() != nil && !errors.Is(e.Err, ErrLost) {
		return ended(ctx, t.mutex.key, e.Err)
	}
	return e.Err
}

// release ends the hold, and gives the lock back unless it is kept for the next hold.
func (l *Lease) release(ctx context.Context) error {
	t := l.tenure
	m, c := t.mutex, t.mutex.client
	now := time.Since(epoch)
	var err error
	if kept := t.keep(now); kept {
		l.end(ErrUnlocked)
		if l.watch.Load() != unlocked {
			t.life.Forget() // a tenure may see many holds
		}
		t.line.leave()
	} else {
		err = l.giveBack(ctx, now)
	}
	c.counters.released.Add(1)
	c.counters.holdTime.Add(int64(now - l.began))
	if m.traced() {
		m.tell(stepReleased, Event{Lease: l, Held: time.Since(epoch) - l.began, Err: err})
	}
	return err
}

// giveBack gives the lock back and passes the turn on, also when a Trace that is told of a loss panics.
func (l *Lease) giveBack(ctx context.Context, now time.Duration) error {
	t := l.tenure
	defer t.mutex.client.part(t.mutex.key, t.line)
	defer t.line.leave()
	t.reuse.end()
	err := t.release(ctx, epoch.Add(now))
	if err == nil {
		l.end(ErrUnlocked)
	} else {
		l.lost()
	}
	return err
}
