//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package run

import "syscall"

// tether does nothing: this system has nothing that ends the command when we are killed by KILL.
func tether(*syscall.SysProcAttr) {}
