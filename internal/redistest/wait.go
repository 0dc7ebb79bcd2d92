package redistest

import (
	"testing"
	"time"
)

// Wait waits until ok returns true, and fails the test if that takes more than a minute, which is far longer than
// anything should take on a slow machine. It looks less often the longer it takes.
func Wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	const first, last = 500 * time.Microsecond, 10 * time.Millisecond
	end := time.Now().Add(time.Minute)
	for pause := first; !ok(); pause = min(pause*5/4, last) {
		if time.Now().After(end) {
			t.Fatalf("waited for a minute, and still not: %s", what)
		}
		time.Sleep(pause)
	}
}
