//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"errors"
	"syscall"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// A watch exists while the command runs. It passes signals on, follows the command when that is stopped, and ends the command
// before the lock ends.
//
// Invariant: when the validity of the lease is over, the whole group has been sent KILL, whatever the servers, the command or
// stderr are doing.
type watch struct {
	*runner
	group *group
	got   time.Time // when the lease was acquired

	lost   bool      // the lease is over
	warned time.Time // the group was sent TERM for this end of the validity
	kill   time.Time // when to kill the group, once the lease is over
	killed bool
}

// loss returns a channel that reports the end of the lease, once.
func (w *watch) loss() <-chan struct{} {
	if w.lost || w.state > running {
		return nil
	}
	return w.lease.Done()
}

// ending reports whether the command is being ended because of the lock.
func (w *watch) ending() bool { return w.lost || w.warned.Equal(w.lease.Until()) }

// termed reports whether the command was sent TERM because of the lock, which may have been renewed since.
func (w *watch) termed() bool { return w.lost || !w.warned.IsZero() }

// release gives the terminal back at the end.
func (w *watch) release() {
	if w.termed() {
		w.group.tty.restoreModes(w.group.id)
	}
	w.group.release()
}

// pass passes a signal on. A group that has no lock any more must not be woken up.
func (w *watch) pass(s syscall.Signal) {
	if w.check(); !w.lost || s != syscall.SIGCONT {
		w.group.pass(s)
	}
}

// next returns how long nothing has to be done.
func (w *watch) next() time.Duration {
	at := w.lease.Until()
	switch {
	case w.killed:
		return time.Hour
	case w.lost:
		at = w.kill
	case !w.warned.Equal(at):
		at = at.Add(-w.grace)
	}
	return max(time.Until(at), 0)
}

// check does what is due.
func (w *watch) check() {
	now := time.Now()
	if err := w.lease.Err(); err != nil && !w.lost {
		w.lost = true
		w.lose(err, now)
	}
	until := w.lease.Until()
	switch {
	case w.killed:
	case w.lost && !now.Before(w.kill), !w.lost && !now.Before(until):
		w.killed = true
		w.group.end(syscall.SIGKILL)
	case !w.lost && !w.warned.Equal(until) && !now.Before(until.Add(-w.grace)):
		w.warned = until
		w.group.end(syscall.SIGTERM)
		reason := ""
		if err := w.lastRenewal.Load(); err != nil {
			reason = ", " + w.servers.Failures(*err)
		}
		w.notes.say("the lock %q can't be renewed%s; the command is sent TERM, and KILL in %v when the lock ends",
			w.name, reason, until.Sub(now).Round(time.Millisecond))
	}
}

// lose handles the end of the lease.
func (w *watch) lose(err error, now time.Time) {
	var lost *redimutex.LostError
	if errors.As(err, &lost); lost.Reason == redimutex.Expired {
		// A group that was sent TERM has had its time. A group that was not, because this process was stopped, gets none.
		w.kill = now
		if !w.warned.Equal(w.lease.Until()) {
			w.notes.say("%s; the command is sent KILL", w.lostWords(lost))
		}
		return
	}
	w.kill = now.Add(w.grace)
	w.group.end(syscall.SIGTERM)
	w.notes.say("%s; the command is sent TERM, and KILL in %v", w.lostWords(lost), w.grace)
}

// follow handles a stop of the command. At a terminal this process stops as well, so that the shell sees it. Then nothing
// renews the lease. If this process is continued too late, the command does not run on.
func (w *watch) follow(by syscall.Signal) {
	g := w.group
	if by == syscall.SIGSTOP || g.tty.fd < 0 {
		return // the command keeps its lock until it is continued
	}
	if by != syscall.SIGTSTP {
		g.tty.wants = true
		// A command that has the terminal and stops by TTIN is a redimutex that follows its own command (cli.StopUs).
		if g.tty.foreground() != g.id && g.tty.lend(g.id) {
			g.end(syscall.SIGCONT) // it wanted the terminal, which this process had
			return
		}
	}
	g.tty.takeBack(g.id)
	cli.StopUs(w.check)
	w.check()
	if !w.lost {
		g.pass(syscall.SIGCONT)
	}
}
