//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"os/signal"
	"syscall"
)

// ignored returns the signals that we were started to ignore, as far as the Go runtime says it.
func ignored() map[syscall.Signal]bool {
	all := make(map[syscall.Signal]bool)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			all[s] = true
		}
	}
	return all
}

// livingMembers does not know it here.
func livingMembers(int) (living, known bool) { return false, false }
