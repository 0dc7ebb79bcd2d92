//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package cli

import (
	"os"
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
