//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/internal/server"
)

// options returns the options of the Client.
func (r *runner) options() []redimutex.Option {
	opts := []redimutex.Option{
		redimutex.WithTTL(r.ttl),
		redimutex.WithOwner(r.owner),
		redimutex.WithLogger(slog.New(slog.DiscardHandler)), // run reports everything itself
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

// An acquisition tries to get a lock, or waits for it.
type acquisition func(ctx context.Context) (*redimutex.Lease, error)

// lock returns the functions that get the lock. Only this function knows the kind of the lock.
func (r *runner) lock() (try, wait acquisition) {
	switch key := r.keys[0]; {
	case r.permits > 0:
		l := r.client.Semaphore(key, r.permits)
		return l.TryAcquire, l.Acquire
	case r.shared:
		l := r.client.RWMutex(key)
		return l.TryRAcquire, l.RAcquire
	case len(r.keys) > 1:
		l := r.client.MutexAll(r.keys)
		return l.TryAcquire, l.Acquire
	default:
		l := r.client.Mutex(key)
		return l.TryAcquire, l.Acquire
	}
}

// hold keeps the lease of a lock that was acquired.
func (r *runner) hold(l *redimutex.Lease, err error) error {
	if err == nil {
		r.lease = l
	}
	return err
}

// errNested says that the holder is a redimutex run that runs this process: each would wait for the other.
var errNested = errors.New("the holder runs us")

// try connects and tries once, or a few times if the first try says too little. A server that was just reached gets a second
// to answer: with a short TTL the library gives it so little time that a busy machine could look like a broken server. With
// several servers and -n, machines that try at the same moment may split the votes, and then each would leave the job to the
// others.
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
	var err error
	for tries, began := 1, time.Now(); ; tries++ {
		tried := time.Now()
		again := r.hold(r.tryLock(ctx))
		if again != nil && err != nil && ctx.Err() != nil {
			break // it was cut short; the error of the try before says why
		}
		err = again
		split := errors.Is(err, redimutex.ErrLocked) && r.once && len(r.servers) > 1 && tries < maxSplit
		rest := rand.N(2*pause + 2*time.Since(tried)) // apart from the tries of the others
		if !split && (!errors.Is(err, redimutex.ErrUnavailable) || time.Since(began) > time.Second) || !cli.Rest(ctx, rest) {
			break
		}
	}
	if !r.once && errors.Is(err, redimutex.ErrLocked) && r.heldByAncestor(ctx) {
		return fmt.Errorf("%w: %w", errNested, err)
	}
	return err
}

const (
	pause    = 20 * time.Millisecond // between two attempts of the same step
	maxSplit = 5                     // tries that may split the votes
)

// await waits for the lock as long as allowed, and reports once if the servers fail meanwhile. A hand-off lasts only a moment,
// and a command needs a whole TTL, so await extends the lease. If that comes too late, it waits again.
func (r *runner) await(ctx context.Context) error {
	r.client.Observe(&redimutex.Trace{Attempt: r.attempted})
	limited := ctx
	if r.wait > 0 {
		var cancel func()
		limited, cancel = context.WithDeadline(ctx, r.began.Add(r.wait))
		defer cancel()
	}
	for {
		err := r.hold(r.waitLock(limited))
		if limited.Err() != nil && errors.Is(err, context.DeadlineExceeded) &&
			!errors.Is(err, redimutex.ErrLocked) && !errors.Is(err, redimutex.ErrUnavailable) {
			return r.locked // the wait was over before the server could be asked again
		}
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

// acquired handles the outcome of the first try, or of the wait.
func (r *runner) acquired(err error) {
	switch {
	case err == nil:
		r.start()
	case !errors.Is(err, redimutex.ErrLocked):
		r.notes.say("can't lock %q: %s", r.name, r.servers.Explain(err))
		r.finish(cli.Unavailable)
	case r.state == waiting:
		r.conflicts(err, "gave up %q after "+r.wait.String()+", %s")
	case errors.Is(err, errNested):
		r.conflicts(err, "%q is %s, which runs this command: the wait may never end")
	case r.once:
		r.conflicts(err, "%q is %s")
	default:
		r.locked = err
		r.say(err, "waiting for %q, %s")
		r.begin(waiting, r.await)
	}
}

// conflicts ends this run because another holder has the lock.
func (r *runner) conflicts(err error, format string) {
	r.say(err, format)
	r.finish(r.conflict)
}

// say reports who holds the lock. format gets the key, and then the holder.
func (r *runner) say(err error, format string) {
	var locked *redimutex.LockedError
	if r.quiet || !errors.As(err, &locked) {
		return
	}
	holder := "held by " + cmp.Or(locked.Owner, "an unknown owner")
	if locked.Key != r.name { // one of several keys
		holder += fmt.Sprintf(", which has %q", locked.Key)
	}
	if locked.Left < 0 {
		holder += ", with a key that never expires"
	}
	r.notes.say(format, r.name, holder)
}

// release releases the lock, if this run has it, and waits until the remains of an interrupted try are cleaned up. It fails if
// -min-hold could not be kept.
func (r *runner) release(ctx context.Context) (err error) {
	defer r.client.Close()
	switch {
	case r.lease == nil:
	case r.supervisor == nil:
		r.abandon()
	default:
		if err = r.cover(ctx); err == nil {
			err = r.unlock()
		}
	}
	return err
}

// rest returns how long -min-hold still lasts.
func (r *runner) rest() time.Duration { return r.minHold - time.Since(r.started) }

// covered reports whether the lease lasts to the end of -min-hold.
func (r *runner) covered() bool { return r.rest() <= time.Until(r.lease.Until()) }

// cover extends the lease to the end of -min-hold, before the release: if the release gets no answer, the key expires with the
// lease. An extension can be repeated, but a release can't.
func (r *runner) cover(ctx context.Context) error {
	for r.lease.Err() == nil && !r.covered() {
		rest := r.rest()
		if err := r.lease.Extend(ctx, rest+rest/50+10*time.Millisecond); err != nil && !cli.Rest(ctx, pause) {
			return err
		}
	}
	return nil
}

// unlock releases the lock, and reports a loss that was not reported yet. It fails if the lock was lost during -min-hold.
func (r *runner) unlock() error {
	err := r.lease.Release(context.Background())
	var lost *redimutex.LostError
	switch {
	case err == nil || r.supervisor.ending():
	case errors.As(err, &lost) && r.minHold > 0 && (r.rest() > 0 || !r.covered()):
		r.notes.say("%s; %s", r.lostWords(lost), r.tooEarly())
		return err
	case errors.As(err, &lost):
		r.notes.say("%s; that was noticed only after the command had ended", r.lostWords(lost))
	case r.minHold > 0: // the lock stays long enough
	default:
		r.notes.say("can't give the lock %q back, so it stays until its TTL is over: %s", r.name, r.servers.Failures(err))
	}
	return nil
}

// tooEarly returns the words for a -min-hold that could not be kept.
func (r *runner) tooEarly() string {
	return fmt.Sprintf("it could not be kept for the %v of -min-hold, so COMMAND may run again before", r.minHold)
}

// abandon releases a lock under which no command has run, whatever -min-hold is. If it can't be released, it expires.
func (r *runner) abandon() {
	token := r.lease.Token()
	r.lease.Release(context.Background()) //nolint:errcheck // it expires
	r.lease = nil
	if r.minHold == 0 {
		return
	}
	var each sync.WaitGroup
	for _, n := range r.servers {
		for _, key := range r.keys {
			each.Go(func() { n.Release(server.Mutex, key, token, r.minHold, r.queue) }) // or it expires
		}
	}
	each.Wait()
}

// lostWords returns how a lock was lost, in words.
func (j *job) lostWords(lost *redimutex.LostError) string {
	key, why := "its key", "it was "+string(lost.Reason)
	if len(j.keys) > 1 {
		key = fmt.Sprintf("its key %q", shorten(lost.Key))
	}
	switch lost.Reason {
	case redimutex.Expired:
		why = "it expired, because it could not be renewed in time"
	case redimutex.Deleted:
		why = key + " was deleted, or the server lost its data"
		if len(j.servers) > 1 {
			why += " (or do two of the URLs lead to one server? redimutex doctor says so)"
		}
	case redimutex.Taken:
		why = "another client has overwritten " + key
	case redimutex.Closed:
	}
	return fmt.Sprintf("the lock %q was lost: %s", j.name, why)
}
