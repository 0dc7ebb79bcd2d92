//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"context"
	"errors"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// What the loop does with the outcome of the steps that acquire the lock.

// failed ends a wait that can't succeed.
func (r *runner) failed(err error) {
	r.notes.say("can't lock %q: %s", r.name, r.servers.Explain(err))
	r.finish(cli.Unavailable)
}

// tried takes the outcome of the first try.
func (r *runner) tried(err error) {
	switch {
	case err == nil:
		r.start()
	case errors.Is(err, errNested):
		r.conflicts(err, "%q is %s, which runs this command: the wait would never end")
	case !errors.Is(err, redimutex.ErrLocked):
		r.failed(err)
	case r.once:
		r.conflicts(err, "%q is %s")
	default:
		r.locked = err
		r.say(err, "waiting for %q, %s")
		r.begin(waiting, r.await)
	}
}

// waited takes the outcome of the wait.
func (r *runner) waited(err error) {
	switch {
	case err == nil && r.queue:
		r.begin(settling, r.settle)
	case err == nil:
		r.start()
	case errors.Is(err, redimutex.ErrLocked):
		r.conflicts(err, "gave up %q after "+r.wait.String()+", %s")
	case r.wait > 0 && time.Since(r.began) >= r.wait && errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, redimutex.ErrUnavailable):
		r.conflicts(r.locked, "gave up %q after "+r.wait.String()+", %s") // before it could ask once more
	default:
		r.failed(err)
	}
}

// settled takes the outcome of the extension of what was handed off.
func (r *runner) settled(err error) {
	switch {
	case err == nil:
		r.start()
	case errors.Is(err, redimutex.ErrLost), errors.Is(err, redimutex.ErrUnavailable):
		r.begin(waiting, r.await)
	default:
		r.failed(err)
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
