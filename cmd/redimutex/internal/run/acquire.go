//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// options are those of the Client.
func (r *runner) options() []redimutex.Option {
	opts := []redimutex.Option{
		redimutex.WithTTL(r.ttl),
		redimutex.WithOwner(r.owner),
		redimutex.WithLogger(slog.New(slog.DiscardHandler)), // we say ourselves what there is to say
		redimutex.WithTrace(&redimutex.Trace{Renewed: r.renewed}),
	}
	if r.permits == 0 {
		opts = append(opts, redimutex.WithFencing())
	}
	if r.queue {
		opts = append(opts, redimutex.WithQueue())
	}
	if r.minHold > 0 {
		opts = append(opts, redimutex.WithMinHold(r.minHold))
	}
	return opts
}

func (r *runner) renewed(e redimutex.Event) {
	if e.Err == nil {
		r.lastRenewal.Store(nil)
		return
	}
	r.lastRenewal.Store(&e.Err)
}

// A locker is a lock of any kind.
type locker interface {
	TryAcquire(ctx context.Context) (*redimutex.Lease, error)
	Acquire(ctx context.Context) (*redimutex.Lease, error)
}

// locker returns the lock. Only here it is known of what kind it is.
func (r *runner) locker(opts ...redimutex.Option) locker {
	switch {
	case r.permits > 0:
		return r.client.Semaphore(r.keys[0], r.permits, opts...)
	case r.shared:
		return reader{r.client.RWMutex(r.keys[0], opts...)}
	case len(r.keys) > 1:
		return r.client.MutexAll(r.keys, opts...)
	}
	return r.client.Mutex(r.keys[0], opts...)
}

// A reader is the side of an RWMutex that many hold.
type reader struct{ *redimutex.RWMutex }

func (r reader) TryAcquire(ctx context.Context) (*redimutex.Lease, error) { return r.TryRAcquire(ctx) }
func (r reader) Acquire(ctx context.Context) (*redimutex.Lease, error)    { return r.RAcquire(ctx) }

// hold keeps the lease of a lock that was acquired.
func (r *runner) hold(l *redimutex.Lease, err error) error {
	if err == nil {
		r.lease = l
	}
	return err
}

// errNested says that the holder is a redimutex run that runs us: it waits for us, as we would for it.
var errNested = errors.New("the holder runs us")

// try connects and tries once. A server that we have just reached gets a second to answer, because with a short TTL the
// library gives it so little time that a busy machine could look like a broken one.
func (r *runner) try(ctx context.Context) error {
	limit := servers.DialTimeout
	if r.wait > 0 {
		limit = min(limit, max(r.wait, time.Second))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := r.servers.Connect(ctx); err != nil {
		return err
	}
	err := r.hold(r.lock.TryAcquire(ctx))
	for end := time.Now().Add(time.Second); errors.Is(err, redimutex.ErrUnavailable) && time.Now().Before(end); {
		if !pause(ctx) {
			break
		}
		err = r.hold(r.lock.TryAcquire(ctx))
	}
	if !r.once && errors.Is(err, redimutex.ErrLocked) && r.heldByAncestor(ctx) {
		return fmt.Errorf("%w: %w", errNested, err)
	}
	return err
}

// pause waits before something is repeated. It reports whether ctx goes on.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// await waits for the lock as long as it may, and says once that the servers fail meanwhile. What a release hands off to the
// first in the queue lasts for a moment, and a command needs a whole TTL: where that comes too late, it waits again.
func (r *runner) await(ctx context.Context) error {
	r.lock = r.locker(redimutex.WithTrace(&redimutex.Trace{Renewed: r.renewed, Attempt: r.attempted}))
	limited := ctx
	if r.wait > 0 {
		var cancel func()
		limited, cancel = context.WithDeadline(ctx, r.began.Add(r.wait))
		defer cancel()
	}
	for {
		err := r.hold(r.lock.Acquire(limited))
		if err != nil || !r.queue {
			return err
		}
		if err = r.lease.Extend(ctx, r.ttl); err == nil {
			return nil
		}
		r.abandon()
		if !errors.Is(err, redimutex.ErrLost) && !errors.Is(err, redimutex.ErrUnavailable) {
			return err
		}
	}
}

func (r *runner) attempted(e redimutex.Event) {
	if e.Context.Err() == nil && !r.quiet && errors.Is(e.Err, redimutex.ErrUnavailable) {
		r.failing.Do(func() {
			r.notes.say("still waiting for %q, though the server fails: %s", r.name, r.servers.Failures(e.Err))
		})
	}
}

// acquired takes the outcome of the first try, or of the wait.
func (r *runner) acquired(err error) {
	held := errors.Is(err, redimutex.ErrLocked)
	switch {
	case err == nil:
		r.start()
	case r.state == waiting && !held && r.wait > 0 && time.Since(r.began) >= r.wait &&
		errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, redimutex.ErrUnavailable):
		r.conflicts(r.locked, "gave up %q after "+r.wait.String()+", %s") // before it could ask once more
	case !held:
		r.notes.say("can't lock %q: %s", r.name, r.servers.Explain(err))
		r.finish(cli.Unavailable)
	case r.state == waiting:
		r.conflicts(err, "gave up %q after "+r.wait.String()+", %s")
	case errors.Is(err, errNested):
		r.conflicts(err, "%q is %s, which runs this command: the wait would never end")
	case r.once:
		r.conflicts(err, "%q is %s")
	default:
		r.locked = err
		r.say(err, "waiting for %q, %s")
		r.begin(waiting, r.await)
	}
}

// conflicts ends us because another holder has the lock.
func (r *runner) conflicts(err error, format string) {
	r.say(err, format)
	r.finish(r.conflict)
}

// say says who holds the lock: format has the key, and then the holder.
func (r *runner) say(err error, format string) {
	var locked *redimutex.LockedError
	if !r.quiet && errors.As(err, &locked) {
		r.notes.say(format, r.name, cli.HeldBy(locked.Owner, locked.Left))
	}
}
