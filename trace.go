package redimutex

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// A Trace is a set of functions to be called as things happen to locks, like
// [net/http/httptrace.ClientTrace]. Any of them may be nil. They are called on the goroutine to
// which it happens, so they must return soon and must not lock, unlock or close anything here.
//
// Every call that wants a lock ends with Acquired or GaveUp; every hold ends with Released, which a
// Lost may precede. A lease may be lost at once, so Lost may be called before Acquired has returned.
type Trace struct {
	Waiting  func(Event) // a call queues behind others of this process
	Attempt  func(Event) // a try has failed; Err says why
	Acquired func(Event) // a lock was acquired
	GaveUp   func(Event) // a call has ended without the lock; Err says why
	Renewed  func(Event) // a renewal has succeeded, or failed with Err; what shows a loss is told by Lost alone
	Released func(Event) // a lock was unlocked; Err if that did not work
	Lost     func(Event) // a lease was lost; Err says why
}

// An Event is what a [Trace] is told.
type Event struct {
	Context context.Context // of the call: Waiting, Attempt, Acquired, GaveUp; nil in the others
	Key     string
	Owner   string        // see [WithOwner]
	Lease   *Lease        // Acquired, Renewed, Released, Lost: the hold
	Fence   int64         // of the hold, with fencing
	Attempt int           // Attempt, Acquired, GaveUp: number of tries so far
	Wait    time.Duration // Attempt, Acquired, GaveUp: time since the call
	Held    time.Duration // Renewed, Released, Lost: age of the hold
	Until   time.Time     // Acquired, Renewed: end of the validity
	Err     error
}

// Observe has t told what happens to all locks of the Client from now on, until stop is called. It is for what is
// added from outside to a Client that exists, such as metrics. [WithTrace] is part of how a Mutex is made: it tells of
// that Mutex alone, and does not end. A Mutex that has both tells both. What is under way when stop is called may still
// be told after it has returned.
func (c *Client) Observe(t *Trace) (stop func()) {
	must(t != nil, "Observe needs a Trace, and got nil")
	own := *t // t may be observing already
	t = &own
	c.observers.change(func(all []*Trace) []*Trace { return append(all, t) })
	return func() {
		c.observers.change(func(all []*Trace) []*Trace {
			return slices.DeleteFunc(all, func(other *Trace) bool { return other == t })
		})
	}
}

// Observers are the Traces of a Client. Reading them costs the paths of a lock one atomic load.
type observers struct{ all atomic.Pointer[[]*Trace] }

func (o *observers) change(f func([]*Trace) []*Trace) {
	for {
		old := o.all.Load()
		var all []*Trace
		if old != nil {
			all = slices.Clone(*old)
		}
		all = f(all)
		next := &all
		if len(all) == 0 {
			next = nil
		}
		if o.all.CompareAndSwap(old, next) {
			return
		}
	}
}

// traced reports whether anybody wants to be told what happens to o. Where it happens often, nothing
// is done for an event before this was asked.
func (o *object) traced() bool {
	return o.config.trace != nil || o.client.observers.all.Load() != nil
}

// emit calls every Trace of o with an event of that kind.
func (o *object) emit(kind func(*Trace) func(Event), e Event) {
	e.Key, e.Owner = o.key, o.config.terms.Owner
	if e.Lease != nil {
		e.Fence = e.Lease.Fence()
	}
	if t := o.config.trace; t != nil {
		t.emit(kind, e)
	}
	if all := o.client.observers.all.Load(); all != nil {
		for _, t := range *all {
			t.emit(kind, e)
		}
	}
}

func (t *Trace) emit(kind func(*Trace) func(Event), e Event) {
	if f := kind(t); f != nil {
		f(e)
	}
}

func kindWaiting(t *Trace) func(Event)  { return t.Waiting }
func kindAttempt(t *Trace) func(Event)  { return t.Attempt }
func kindAcquired(t *Trace) func(Event) { return t.Acquired }
func kindGaveUp(t *Trace) func(Event)   { return t.GaveUp }
func kindRenewed(t *Trace) func(Event)  { return t.Renewed }
func kindReleased(t *Trace) func(Event) { return t.Released }
func kindLost(t *Trace) func(Event)     { return t.Lost }
