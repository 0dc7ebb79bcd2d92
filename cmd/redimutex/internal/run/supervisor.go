//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"errors"
	"syscall"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// A supervisor exists from the start of the command on. It passes signals on, follows the command when that is stopped, and
// ends the command before the lock ends.
//
// Invariant: when the validity of the lease is over, the whole group has been sent KILL, whatever the servers, the command or
// stderr are doing.
type supervisor struct {
	*runner
	group  *group
	lost   bool      // the lease is over
	warned time.Time // the group was sent TERM for this end of the validity
	kill   time.Time // when to kill the group, once the lease is over
	killed bool
}

// loss returns a channel that reports the end of the lease, once.
func (s *supervisor) loss() <-chan struct{} {
	if s.lost {
		return nil
	}
	return s.lease.Done()
}

// ending reports whether the command is being ended because of the lock.
func (s *supervisor) ending() bool { return s.lost || s.warned.Equal(s.lease.Until()) }

// termed reports whether the command was sent TERM because of the lock, which may have been renewed since.
func (s *supervisor) termed() bool { return s.lost || !s.warned.IsZero() }

// release gives the terminal back at the end.
func (s *supervisor) release() {
	if s.termed() {
		s.group.tty.restoreModes(s.group.id)
	}
	s.group.release()
}

// pass passes a signal on. A group that has no lock any more must not be woken up.
func (s *supervisor) pass(number syscall.Signal) {
	if s.check(); !s.lost || number != syscall.SIGCONT {
		s.group.pass(number)
	}
}

// next returns how long nothing has to be done.
func (s *supervisor) next() time.Duration {
	at := s.lease.Until()
	switch {
	case s.killed:
		return time.Hour
	case s.lost:
		at = s.kill
	case !s.warned.Equal(at):
		at = at.Add(-s.grace)
	}
	return max(time.Until(at), 0)
}

// check does what is due.
func (s *supervisor) check() {
	now := time.Now()
	if err := s.lease.Err(); err != nil && !s.lost {
		s.lost = true
		s.lose(err, now)
	}
	until := s.lease.Until()
	switch {
	case s.killed:
	case s.lost && !now.Before(s.kill), !s.lost && !now.Before(until):
		s.killed = true
		s.group.end(syscall.SIGKILL)
	case !s.lost && !s.warned.Equal(until) && !now.Before(until.Add(-s.grace)):
		s.warned = until
		s.group.end(syscall.SIGTERM)
		reason := ""
		if err := s.lastRenewal.Load(); err != nil {
			reason = ", " + s.servers.Failures(*err)
		}
		s.notes.say("the lock %q can't be renewed%s; the command is sent TERM, and KILL in %v when the lock ends",
			s.name, reason, until.Sub(now).Round(time.Millisecond))
	}
}

// lose handles the end of the lease.
func (s *supervisor) lose(err error, now time.Time) {
	var lost *redimutex.LostError
	if errors.As(err, &lost); lost.Reason == redimutex.Expired {
		// A group that was sent TERM has had its time. A group that was not, because this process was stopped, gets none.
		s.kill = now
		if !s.warned.Equal(s.lease.Until()) {
			s.notes.say("%s; the command is sent KILL", s.lostWords(lost))
		}
		return
	}
	s.kill = now.Add(s.grace)
	s.group.end(syscall.SIGTERM)
	s.notes.say("%s; the command is sent TERM, and KILL in %v", s.lostWords(lost), s.grace)
}

// follow handles a stop of the command. At a terminal this process stops as well, so that the shell sees it. Then nothing
// renews the lease. If this process is continued too late, the command does not run on.
func (s *supervisor) follow(by syscall.Signal) {
	g := s.group
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
	cli.StopUs(s.check)
	s.check()
	if !s.lost {
		g.pass(syscall.SIGCONT)
	}
}
