package redistest

import (
	"slices"
	"testing"
	"time"
)

// A Hold is what tells whether it is still valid: a Lease.
type Hold interface{ Err() error }

// BothValid reports whether both leases are valid at one moment: the promise is broken. The second has to
// be held already. It is asked last, so if it says yes it was valid when the first said so.
func BothValid(first, second Hold) bool { return first.Err() == nil && second.Err() == nil }

// Repeat plays a scene until it has come about: scene reports false where the machine was too slow for
// that, and has failed nothing then. It fails the test if the scene does not come about in twenty tries.
func Repeat(t testing.TB, what string, scene func() bool) {
	t.Helper()
	for range 20 {
		if scene() || t.Failed() {
			return
		}
		time.Sleep(50 * time.Millisecond) // whatever else keeps the machine busy
	}
	t.Fatalf("in twenty tries the machine was never fast enough for: %s", what)
}

// Overrun returns by how much f takes longer than bound, and how late the machine was meanwhile: the longest
// that a goroutine which only sleeps overslept. With a machine that was late, the first says little.
func Overrun(bound time.Duration, f func()) (over, late time.Duration) {
	l, began := MeasureLateness(), time.Now()
	defer func() { late = slices.Max(append(l.Naps(), 0)) }() // also when f ends the test
	f()
	return time.Since(began) - bound, 0
}
