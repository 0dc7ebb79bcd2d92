//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"os"
	"os/signal"
	"syscall"
)

// ends reports whether a signal ends the wait for the lock.
func ends(s syscall.Signal) bool {
	switch s {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGALRM:
		return true
	}
	return false
}

// catch has all signals that we pass on delivered to a channel. What our parent has us ignore, as nohup does, we go on
// ignoring, and so does the command, as far as the Go runtime leaves it so: HUP, INT, and what stops a process.
func catch() chan os.Signal {
	signals := make(chan os.Signal, 64)
	for _, s := range []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGALRM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
	} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	// When nothing reads our stderr any more, that must not kill us while the command runs.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signals
}
