//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package cli

import "syscall"

const (
	getTermios = syscall.TIOCGETA
	setTermios = syscall.TIOCSETA
)
