package redistest

import (
	"slices"
	"testing"
	"time"
)

// A Hold tells whether it is still valid. A Lease is one.
type Hold interface{ Err() error }

// BothValid reports whether both leases are valid at one moment, which breaks the promise. second must already be held. It is
// asked last: if it is valid then, it was also valid when first said so.
func BothValid(first, second Hold) bool { return first.Err() == nil && second.Err() == nil }

// Repeat plays a scene until it succeeds. scene returns false if the machine was too slow for it; it must not have failed the
// test then. Repeat fails the test if twenty tries are not enough.
func Repeat(t testing.TB, what string, scene func() bool) {
	t.Helper()
	for range 20 {
		if scene() || t.Failed() {
			return
		}
		time.Sleep(50 * time.Millisecond) // let pass what keeps the machine busy
	}
	t.Fatalf("in twenty tries the machine was never fast enough for: %s", what)
}

// Overrun returns by how much f takes longer than bound, and how late the machine was meanwhile: the longest time by which a
// sleeping goroutine overslept. If the machine was late, over says little.
func Overrun(bound time.Duration, f func()) (over, late time.Duration) {
	l, began := MeasureLateness(), time.Now()
	defer func() { late = slices.Max(append(l.Naps(), 0)) }() // also when f ends the test
	f()
	return time.Since(began) - bound, 0
}
