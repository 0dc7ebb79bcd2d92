//go:build unix

package redistest

import (
	"errors"
	"net"
	"syscall"
)

// alive reports whether a process exists.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// Stop suspends a process, and Resume lets it continue.
func Stop(pid int) error   { return syscall.Kill(pid, syscall.SIGSTOP) }
func Resume(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

// halt suspends a child process, and returns when it no longer runs.
func halt(pid int) error {
	if err := Stop(pid); err != nil {
		return err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || status.Stopped() {
		return err
	}
	return errors.New("it has ended")
}

// setBacklog sets how many connections may wait to be accepted.
func setBacklog(l *net.TCPListener, n int) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), n) }); err != nil {
		return err
	}
	return failed
}
