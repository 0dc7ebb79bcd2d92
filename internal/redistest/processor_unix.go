//go:build unix

package redistest

import (
	"syscall"
	"testing"
	"time"
)

// Processor returns how much time of a processor this process has used.
func Processor(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
