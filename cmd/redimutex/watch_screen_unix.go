//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// terminalSize asks the terminal; it returns zeros if it does not know.
func terminalSize(f *os.File) (width, height int) {
	var size struct{ rows, columns, _, _ uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return 0, 0
	}
	return int(size.columns), int(size.rows)
}

// suspensions tells that somebody has typed Ctrl-Z.
func (s *screen) suspensions() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTSTP)
	return c
}

// suspend gives the screen back and stops, until the shell continues us.
func (s *screen) suspend() {
	s.leave()
	stopUs()
}
