//go:build !unix

package redistest

import (
	"testing"
	"time"
)

// Processor skips what wants to know how much time of a processor it uses.
func Processor(t testing.TB) time.Duration {
	t.Helper()
	t.Skip("this system does not say how much time of a processor a process uses")
	return 0
}
