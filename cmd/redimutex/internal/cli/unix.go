//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"
)

// StopUs stops this process's own group, and returns when it was continued. TTIN is not caught, so the kernel stops the
// process by it; but not if there is no shell that could continue it. Until that is known, StopUs calls meanwhile.
func StopUs(meanwhile func()) {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	syscall.Kill(0, syscall.SIGTTIN) //nolint:errcheck // it can't fail
	// The signal may stop another thread first, and a busy machine may delay that.
	for range 50 {
		select {
		case <-continued:
			return
		case <-time.After(10 * time.Millisecond):
			meanwhile()
		}
	}
}

// dieOf makes this process die of the signal. It returns if that is not possible: of other signals than these the Go runtime
// does not simply die, and PID 1 of a container dies of none.
func dieOf(s syscall.Signal) {
	switch s {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL:
	default:
		return
	}
	if os.Getpid() == 1 {
		return
	}
	signal.Reset(s)
	syscall.Kill(os.Getpid(), s) //nolint:errcheck // it can't fail
	time.Sleep(time.Second)      // another thread may be the one that gets it
}

// terminalSize asks the terminal. It returns zeros if the terminal does not know.
func terminalSize(f *os.File) (width, height int) {
	var size struct{ rows, columns, _, _ uint16 }
	ioctl(f.Fd(), syscall.TIOCGWINSZ, unsafe.Pointer(&size))
	return int(size.columns), int(size.rows)
}

// Foreground returns the process group that has the terminal; -1 if fd is no terminal.
func Foreground(fd uintptr) int {
	var group int32
	if !ioctl(fd, syscall.TIOCGPGRP, unsafe.Pointer(&group)) {
		return -1
	}
	return int(group)
}

// SetForeground gives the terminal to a process group, and reports whether it could.
func SetForeground(fd uintptr, group int) bool {
	id := int32(group) //nolint:gosec // a process number
	return ioctl(fd, syscall.TIOCSPGRP, unsafe.Pointer(&id))
}

// Modes returns the modes of a terminal; nil if fd is no terminal.
func Modes(fd uintptr) *syscall.Termios {
	var modes syscall.Termios
	if !ioctl(fd, getTermios, unsafe.Pointer(&modes)) {
		return nil
	}
	return &modes
}

// SetModes sets the modes of a terminal, and reports whether it could.
func SetModes(fd uintptr, modes *syscall.Termios) bool {
	return ioctl(fd, setTermios, unsafe.Pointer(modes))
}

// ioctl makes an ioctl request about a file, and reports whether it succeeded.
func ioctl(fd, request uintptr, p unsafe.Pointer) bool {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(p))
	return errno == 0
}
