//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// A runner does one job.
type runner struct {
	*job
	notes    *notes
	signals  chan os.Signal
	mutex    *redimutex.Mutex
	renewal  atomic.Pointer[error] // of the last renewal; nil after a good one
	failures sync.Once             // the line that says that the servers fail while we wait
	waits    atomic.Bool           // the first try is over
	last     error                 // of the last try that was not cut short, while we wait
	told     bool                  // stderr has been told that the lock is lost, or is about to be
	ancestor bool                  // the holder is a redimutex run that runs us
	ignored  map[syscall.Signal]bool
}

// run waits for the lock, runs the command and gives the lock back. It returns the exit status.
func (j *job) run(t *cli.Terminal) int {
	r := &runner{job: j, notes: newNotes(t.Err), ignored: ignored()}
	r.signals = r.catch()
	defer r.notes.flush()
	defer j.servers.Close()
	client := redimutex.NewClient(j.servers.Pools(), r.options()...)
	defer client.Close() // waits until what an interrupted try left behind is cleaned up
	r.mutex = client.Mutex(j.key)

	caught, err := r.lock()
	switch {
	case caught != nil:
		return signalStatus(caught)
	case errors.Is(err, redimutex.ErrLocked):
		r.gaveUp(err)
		return j.conflict
	case err != nil:
		r.notes.say("can't lock %q: %s", j.key, j.servers.Explain(err))
		return cli.Unavailable
	}
	token := r.mutex.Lease().Token()
	status, started := r.start(t)
	r.unlock()
	if !started {
		r.forget(token)
	}
	return status
}

// gaveUp says who holds the lock that we have not got.
func (r *runner) gaveUp(err error) {
	var locked *redimutex.LockedError
	if r.quiet || !errors.As(err, &locked) {
		return
	}
	held := cli.HeldBy(locked.Owner, locked.Left)
	switch {
	case r.ancestor:
		r.notes.say("%q is %s, which runs this command: the wait would never end", r.key, held)
	case r.waits.Load():
		r.notes.say("gave up %q after %v, %s", r.key, r.wait, held)
	default:
		r.notes.say("%q is %s", r.key, held)
	}
}

func (r *runner) options() []redimutex.Option {
	opts := []redimutex.Option{
		redimutex.WithTTL(r.ttl),
		redimutex.WithOwner(r.owner),
		redimutex.WithFencing(),
		redimutex.WithLogger(slog.New(slog.DiscardHandler)), // we say ourselves what there is to say
		redimutex.WithTrace(&redimutex.Trace{
			Attempt: r.attempted,
			Renewed: func(e redimutex.Event) {
				if e.Err == nil {
					r.renewal.Store(nil)
					return
				}
				r.renewal.Store(&e.Err)
			},
		}),
	}
	if r.queue {
		opts = append(opts, redimutex.WithQueue())
	}
	if r.minHold > 0 {
		opts = append(opts, redimutex.WithMinHold(r.minHold))
	}
	return opts
}

// catch has all signals that we pass on delivered to a channel. What our parent had us ignore, as
// nohup does, we go on ignoring, and so does the command.
func (r *runner) catch() chan os.Signal {
	signals := make(chan os.Signal, 64)
	for s := range r.ignored {
		signal.Ignore(s)
	}
	for _, s := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
	} {
		if !r.ignored[s] {
			signal.Notify(signals, s)
		}
	}
	if !r.ignored[syscall.SIGPIPE] {
		// When nobody reads our stderr any more, that must not kill us while the command runs.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
	return signals
}

// ends reports whether a signal ends the wait for the lock.
func ends(s os.Signal) bool {
	switch s {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
		return true
	}
	return false
}

func signalStatus(s os.Signal) int {
	return 128 + int(s.(syscall.Signal)) //nolint:forcetypeassert // on Unix all are
}

// lock waits for the lock. If a signal ends that, it returns the signal and the lock is not held.
func (r *runner) lock() (caught os.Signal, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	outcome := make(chan error, 1)
	go func() { outcome <- r.acquire(ctx) }()
	for {
		select {
		case s := <-r.signals:
			if !ends(s) {
				continue // there is nobody to pass it on to
			}
			cancel()
			if err := <-outcome; err == nil {
				r.abandon(context.Background())
			}
			return s, nil
		case err := <-outcome:
			return nil, err
		}
	}
}

// acquire connects, tries once, and then waits as long as it may.
func (r *runner) acquire(ctx context.Context) error {
	waiting, limit := ctx, servers.DialTimeout
	if r.wait > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, r.wait)
		defer cancel()
		limit = min(limit, max(r.wait, time.Second))
	}
	dialling, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := r.servers.Connect(dialling); err != nil {
		return err
	}
	first := r.try(dialling)
	if r.once || !errors.Is(first, redimutex.ErrLocked) {
		return first
	}
	if r.ancestor = r.heldByAncestor(ctx); r.ancestor {
		return first
	}
	r.last = first
	r.waits.Store(true)
	var locked *redimutex.LockedError
	if errors.As(first, &locked) && !r.quiet {
		r.notes.say("waiting for %q, %s", r.key, cli.HeldBy(locked.Owner, locked.Left))
	}
	err := r.queued(waiting)
	if err != nil && waiting.Err() != nil && (servers.NodeErrors(err) == nil || errors.Is(r.last, redimutex.ErrLocked)) {
		if errors.As(err, &locked) {
			return err
		}
		return first // time is up, and nothing worse than the other holder has happened
	}
	return err
}

// queued waits for the lock until it has one for a whole TTL. What a release hands over lasts for a moment and is
// extended while we work, but a command that is started has to have a whole grace in front of it. Whoever is stopped in
// that moment waits again.
func (r *runner) queued(waiting context.Context) error {
	for {
		err := r.mutex.LockContext(waiting, 0)
		if err != nil || !r.queue {
			return err
		}
		if err = r.mutex.Lease().Extend(waiting, r.ttl); err == nil {
			return nil
		}
		r.abandon(waiting)
		if waiting.Err() != nil || !errors.Is(err, redimutex.ErrLost) && !errors.Is(err, redimutex.ErrUnavailable) {
			return err
		}
	}
}

// try tries once. A server that we have just reached gets a second to answer, because with a short
// TTL the library gives it so little time that a busy machine could look like a broken one.
func (r *runner) try(ctx context.Context) error {
	for end := time.Now().Add(time.Second); ; {
		err := r.mutex.TryLockContext(ctx)
		if !errors.Is(err, redimutex.ErrUnavailable) || time.Now().After(end) {
			return err
		}
		timer := time.NewTimer(retryPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

const retryPause = 20 * time.Millisecond

// attempted is told of each try that failed.
func (r *runner) attempted(e redimutex.Event) {
	end, ok := e.Context.Deadline() // a ctx may hear late of its end
	if e.Context.Err() != nil || ok && !time.Now().Before(end) {
		return // it was cut short, and says nothing of the servers
	}
	r.last = e.Err
	if !r.waits.Load() || r.quiet || !errors.Is(e.Err, redimutex.ErrUnavailable) {
		return
	}
	r.failures.Do(func() {
		r.notes.say("still waiting for %q, though the server fails: %s", r.key, r.servers.Failures(e.Err))
	})
}
