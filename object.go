package redimutex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/lock"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// An object is the part that every kind of lock has, and that its Leases need. All its methods allow many holds at a time.
type object struct {
	client *Client
	config *config
	key    string
	more   []string              // further keys of a MutexAll
	hold   atomic.Pointer[Lease] // the current hold, or one that was handed over; nil for kinds with many holds
	reads  *readHolds            // of an RWMutex: the holds that RUnlock ends
}

// Key returns the key on the server.
func (o *object) Key() string { return o.key }

// Client returns the Client that made the lock. The short forms, such as [New], make a Client for the lock.
func (o *object) Client() *Client { return o.client }

// Logger returns the logger for what no return value can carry: see [WithLogger]. Code that drives the lock may use it, too.
func (o *object) Logger() *slog.Logger { return cmp.Or(o.config.logger, slog.Default()) }

const zeroValue = "a zero Mutex, RWMutex or Semaphore has no server: make it by a method of a Client, or by New, NewRedlock, NewRWMutex or NewSemaphore"

// tryOnce is the timeout of a call that tries once.
const tryOnce time.Duration = -1

// acquire gets a hold. The timeout is that of LockContext: with 0 only ctx ends the wait, below 0 acquire tries once.
func (o *object) acquire(ctx context.Context, timeout time.Duration) (*Lease, error) {
	must(o.client != nil, zeroValue)
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if outer := o.around(ctx); outer != nil && ctx.Err() == nil {
		return nil, o.failed(Event{Context: ctx, Err: &LockedError{Key: o.key, Nested: true, upgrade: o.upgrades(outer)}})
	}
	l := newLease(o)
	r := o.client.engine.Lock(ctx, &lock.Call{
		Key: o.key, More: o.more, Terms: &o.config.terms, Once: timeout < 0, MaxTries: o.config.maxAttempts, Pause: o.config.pause,
	}, &l.hold)
	if r.Failure != nil {
		return nil, o.failed(Event{Context: ctx, Attempt: r.Tries, Wait: r.Wait, Err: o.toError(ctx, r.Failure)})
	}
	o.acquired(ctx, l, r)
	return l, nil
}

// acquired counts and reports the new hold.
func (o *object) acquired(ctx context.Context, l *Lease, r lock.Result) {
	if !o.config.terms.Kind.Shared {
		o.hold.Store(l)
	}
	c := o.client
	c.acquired.Add(1)
	c.waitTime.Add(int64(r.Wait))
	if r.Tries > 1 {
		c.contended.Add(1)
	}
	if !o.traced() {
		return
	}
	told := false
	defer func() {
		// If the callback panics or ends the goroutine, the caller never learns that it has the lock: release it.
		if !told {
			_, _ = l.release(context.Background())
		}
	}()
	o.emit(func(t *Trace) func(Event) { return t.Acquired },
		Event{Context: ctx, Lease: l, Attempt: r.Tries, Wait: r.Wait, Until: l.Until()})
	told = true
}

// failed counts and reports a call that has ended without the lock, and returns its error.
func (o *object) failed(e Event) error {
	o.client.failed.Add(1)
	o.emit(func(t *Trace) func(Event) { return t.GaveUp }, e)
	return e.Err
}

// tried reports whether a TryLock succeeded. It logs errors other than ErrLocked.
func (o *object) tried(verb string, err error) bool {
	if err != nil && !errors.Is(err, ErrLocked) {
		o.Logger().Warn("redimutex: "+verb, "key", o.key, "err", err)
	}
	return err == nil
}

// unlocked logs the error of an Unlock, and panics if there was nothing to unlock.
func (o *object) unlocked(verb string, err error) {
	if errors.Is(err, ErrUnlocked) {
		panic(err)
	}
	o.tried(verb, err)
}

// toError turns the failure of a call with ctx into the error that the caller gets.
func (o *object) toError(ctx context.Context, f *quorum.Failure) error {
	switch {
	case f.Kind == quorum.Closed:
		return fmt.Errorf("redimutex: %q: %w", o.key, ErrClosed)
	case f.Kind != quorum.Ended:
		return o.serversError(f)
	case f.Before == nil:
		return endedBy(ctx, o.key, nil)
	}
	return endedBy(ctx, o.key, o.serversError(f.Before))
}

// unsettled returns the error of an operation on a hold that the servers have not confirmed. If ctx has ended, it says so.
func (o *object) unsettled(ctx context.Context, f *quorum.Failure) error {
	err := o.toError(ctx, f)
	if conn.Over(ctx) && !errors.Is(err, ErrLost) {
		return endedBy(ctx, o.key, err)
	}
	return err
}

func (o *object) keyAt(i int) string {
	if i > 0 && i <= len(o.more) {
		return o.more[i-1]
	}
	return o.key
}

// serversError turns what the servers answered into the error that the caller gets.
func (o *object) serversError(f *quorum.Failure) error {
	what, errs := "refused", []error(nil)
	switch f.Kind {
	case quorum.Contended, quorum.Lapsed:
		return &LockedError{Key: o.keyAt(f.Which), Owner: server.Owner(f.Holder), Left: f.Left}
	case quorum.Missing:
		return &LostError{o.keyAt(f.Which), Deleted}
	case quorum.Taken:
		return &LostError{o.keyAt(f.Which), Taken}
	case quorum.Unavailable:
		what, errs = ErrUnavailable.Error(), []error{ErrUnavailable}
	}
	var words []string
	for i, err := range f.Errs {
		if err != nil {
			node := &NodeError{i, err}
			words, errs = append(words, node.Error()), append(errs, node)
		}
	}
	return &wordedError{fmt.Sprintf("redimutex: %q: %s: %s", o.key, what, strings.Join(words, "; ")), errs}
}
