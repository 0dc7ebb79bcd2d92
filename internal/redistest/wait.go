package redistest

import (
	"testing"
	"time"
)

// Wait waits until ok returns true, and fails the test if that takes more than half a minute,
// which is far longer than anything should take on a slow machine.
func Wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for half a minute, and still not: %s", what)
		}
	}
}
