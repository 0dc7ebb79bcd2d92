package redimutex

import "time"

// A Trace is a set of functions to be called as things happen to locks, like
// [net/http/httptrace.ClientTrace]. Any of them may be nil. They are called on the goroutine to
// which it happens, so they must return soon and must not lock, unlock or close anything here.
type Trace struct {
	Attempt  func(Event) // a try has failed; Err says why
	Acquired func(Event) // a lock was acquired
	Renewed  func(Event) // a renewal has succeeded, or failed with Err
	Released func(Event) // a lock was unlocked; Err if that did not work
	Lost     func(Event) // a lease was lost; Err says why
}

// An Event is what a [Trace] is told.
type Event struct {
	Key     string
	Owner   string        // see [WithOwner]
	Fence   int64         // of the hold, with fencing
	Attempt int           // Attempt, Acquired: number of tries so far
	Wait    time.Duration // Attempt, Acquired: time since the call
	Held    time.Duration // Renewed, Released, Lost: age of the hold
	Until   time.Time     // Acquired, Renewed: end of the validity
	Err     error
}
