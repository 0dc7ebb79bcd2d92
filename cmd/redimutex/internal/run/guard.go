//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// A watch is kept while the command runs: it passes signals on, follows the command when it is
// stopped, and ends it before the lock does.
//
// Invariant: when the validity of the lease is over, the whole group has been sent KILL, whatever
// the servers, the command or stderr are doing.
type watch struct {
	*runner
	group *group
	lease *redimutex.Lease

	ended  bool      // the lease is over
	warned time.Time // the end of the validity for which the group was sent TERM
	kill   time.Time // when to kill the group, once the lease is over
	killed bool
}

// start starts the command and waits for its end. It returns the exit status, and whether the command
// was started.
func (r *runner) start(t *cli.Terminal) (status int, started bool) {
	w := &watch{runner: r, lease: r.mutex.Lease()}
	if !r.ignored[syscall.SIGTSTP] {
		signal.Notify(r.signals, syscall.SIGTSTP) // until now it just stopped us
	}
	early, caught := r.early()
	if caught != nil {
		return signalStatus(caught), false
	}
	if w.lease.Err() != nil { // we were stopped after we got the lock
		r.notes.say("the lock %q was lost before the command could start", r.key)
		r.told = true
		return cli.Unavailable, false
	}
	group, err := startGroup(r.job, t, environment(os.Environ(), r.job, w.lease.Fence()))
	if err != nil {
		return cannotRun(t, r.command, err), false
	}
	w.group = group
	defer group.release()
	for _, s := range early {
		group.pass(s)
	}
	return w.run(), true
}

// early returns the signals that have come since the lock was acquired; or the one of them that
// spares us starting the command.
func (r *runner) early() (early []os.Signal, caught os.Signal) {
	for {
		select {
		case s := <-r.signals:
			if ends(s) {
				return nil, s
			}
			early = append(early, s)
		default:
			return early, nil
		}
	}
}

// run waits for the end of the command.
func (w *watch) run() int {
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := w.lease.Done()
	for {
		w.check()
		timer.Reset(w.next())
		select {
		case <-timer.C:
		case <-done:
			done = nil
		case s := <-w.signals:
			w.check() // nothing may be woken up that has no lock any more
			if !w.ended || s != syscall.SIGCONT {
				w.group.pass(s)
			}
		case status := <-w.group.states:
			if status.Stopped() {
				w.follow(status.StopSignal())
				continue
			}
			w.stragglers()
			w.told = w.ended || w.warned.Equal(w.lease.Until())
			return exitOf(status)
		}
	}
}

// exitOf is the exit status of a shell for a command that ended so.
func exitOf(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// next is how long nothing has to be done.
func (w *watch) next() time.Duration {
	at := w.lease.Until()
	switch {
	case w.killed:
		return time.Hour
	case w.ended:
		at = w.kill
	case !w.warned.Equal(at):
		at = at.Add(-w.grace)
	}
	return max(time.Until(at), 0)
}

// check does what is due.
func (w *watch) check() {
	now := time.Now()
	if err := w.lease.Err(); err != nil && !w.ended {
		w.ended = true
		w.lost(err, now)
	}
	until := w.lease.Until()
	switch {
	case w.killed:
	case w.ended && !now.Before(w.kill), !w.ended && !now.Before(until):
		w.killed = true
		w.group.end(syscall.SIGKILL)
	case !w.ended && !w.warned.Equal(until) && !now.Before(until.Add(-w.grace)):
		w.warned = until
		w.group.end(syscall.SIGTERM)
		w.notes.say("the lock %q can't be renewed%s; the command is sent TERM, and KILL in %v when the lock ends",
			w.key, w.reason(), until.Sub(now).Round(time.Millisecond))
	}
}

// lost deals with the end of the lease.
func (w *watch) lost(err error, now time.Time) {
	var lost *redimutex.LostError
	if errors.As(err, &lost); lost.Reason == redimutex.Expired {
		// What was sent TERM has had its time; what was not, because we were stopped, has none.
		w.kill = now
		if !w.warned.Equal(w.lease.Until()) {
			w.notes.say("%s; the command is sent KILL", lostWords(w.key, lost.Reason))
		}
		return
	}
	w.kill = now.Add(w.grace)
	w.group.end(syscall.SIGTERM)
	w.notes.say("%s; the command is sent TERM, and KILL in %v", lostWords(w.key, lost.Reason), w.grace)
}

// reason is why the last renewal failed.
func (w *watch) reason() string {
	if err := w.renewal.Load(); err != nil {
		return ", " + w.servers.Failures(*err)
	}
	return ""
}

// stragglers waits, after the command itself was ended for the sake of the lock, for what else is in
// its group, and kills that in time. After an ordinary end they are left alone, as flock does.
func (w *watch) stragglers() {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !w.killed && (w.ended || w.warned.Equal(w.lease.Until())) && w.group.alive() {
		<-tick.C
		w.check()
	}
	if w.killed {
		w.group.end(syscall.SIGKILL)
	}
}

// follow deals with the command having been stopped. At a terminal we stop as well, so that the shell
// sees it. Then nobody renews the lease; when we wake up too late, the command does not run on.
func (w *watch) follow(by syscall.Signal) {
	g := w.group
	if by == syscall.SIGSTOP || !g.hasTerminal() {
		return // somebody will continue it; until then it has the lock
	}
	if by != syscall.SIGTSTP {
		g.wants = true
		if g.takeTerminal() {
			g.end(syscall.SIGCONT) // it wanted the terminal, and we had it
			return
		}
	}
	g.returnTerminal()
	cli.StopUs()
	w.check()
	if !w.ended {
		g.pass(syscall.SIGCONT)
	}
}
