//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// StopUs stops our own group, and returns when it was continued. We do not catch TTIN, so the kernel
// stops us by it, but not where no shell is there that could continue us.
func StopUs() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	syscall.Kill(0, syscall.SIGTTIN) //nolint:errcheck // that can't fail
	// Another of our threads may be the one that the signal stops first, and a busy machine may let that wait.
	timer := time.NewTimer(500 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-continued:
	case <-timer.C:
	}
}
