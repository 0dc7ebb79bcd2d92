//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"syscall"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// A tty is the controlling terminal of this process, which lends it to the group of the command.
type tty struct {
	fd    int              // -1 if there is none
	wants bool             // the command should have the terminal whenever this process does
	lent  bool             // the command has the terminal now, from this process
	modes *syscall.Termios // of the terminal when the command first got it; nil before
}

func openTTY() *tty {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return &tty{fd: fd, wants: cli.Foreground(0) >= 0 && cli.Foreground(1) >= 0}
}

// lendAtStart has the kernel give the terminal to a new group as that starts, if this process has it.
func (y *tty) lendAtStart(attr *syscall.SysProcAttr) {
	y.lent = y.wants && y.foreground() == syscall.Getpgrp()
	if y.lent {
		y.modes = cli.Modes(uintptr(y.fd))
		attr.Foreground, attr.Ctty = true, y.fd
	}
}

// lend gives the terminal to the group if this process has it. It reports whether the group has it now.
func (y *tty) lend(group int) bool {
	switch y.foreground() {
	case group:
		return true
	case syscall.Getpgrp():
		if y.modes == nil {
			y.modes = cli.Modes(uintptr(y.fd))
		}
		y.lent = y.setForeground(group)
		return y.lent
	}
	return false
}

// lentTo reports whether the group has the terminal, from this process.
func (y *tty) lentTo(group int) bool { return y.lent && y.foreground() == group }

// takeBack takes the terminal back from the group.
func (y *tty) takeBack(group int) {
	if y.lentTo(group) {
		y.setForeground(syscall.Getpgrp())
	}
	y.lent = false
}

// restoreModes undoes the terminal settings of the command. After a command that died of a signal the shell does that, but not
// if this process's exit status hides the signal.
func (y *tty) restoreModes(group int) {
	if y.modes != nil && y.lentTo(group) {
		cli.SetModes(uintptr(y.fd), y.modes)
	}
}

// foreground returns the group that has the terminal; -1 if there is no terminal.
func (y *tty) foreground() int { return cli.Foreground(uintptr(y.fd)) }

func (y *tty) setForeground(group int) bool { return cli.SetForeground(uintptr(y.fd), group) }

func (y *tty) close() {
	if y.fd >= 0 {
		syscall.Close(y.fd) //nolint:errcheck // nothing was written
	}
}
