package redistest

import (
	"testing"
	"time"
)

// patience is far longer than anything should take on a slow machine.
const patience = time.Minute

// Wait waits until ok returns true, and fails the test if that takes more than a minute. The longer it takes, the less often
// ok is called.
func Wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	const first, last = 500 * time.Microsecond, 10 * time.Millisecond
	end := time.Now().Add(patience)
	for pause := first; !ok(); pause = min(pause*5/4, last) {
		if time.Now().After(end) {
			t.Fatalf("waited for %v, and still not: %s", patience, what)
		}
		time.Sleep(pause)
	}
}

// Receive returns what comes from c, or the zero value if c is closed. It fails the test if that takes more than a minute.
func Receive[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v = <-c:
	case <-timer.C:
		t.Fatalf("waited for %v, and still not: %s", patience, what)
	}
	return v
}
