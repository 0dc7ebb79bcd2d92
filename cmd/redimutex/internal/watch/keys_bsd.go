//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package watch

import "syscall"

const (
	getTermios = syscall.TIOCGETA
	setTermios = syscall.TIOCSETA
)
