//go:build unix

package redistest

import (
	"errors"
	"net"
	"syscall"
)

// alive reports whether a process is there.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// Stop halts a process in its tracks, Resume lets it go on.
func Stop(pid int) error   { return syscall.Kill(pid, syscall.SIGSTOP) }
func Resume(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

// halt stops a child of ours, and returns when it does nothing any more.
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

// setBacklog changes how many connections may wait to be accepted.
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
