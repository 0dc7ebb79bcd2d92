// Package fifo is the queue of one key inside a process: which of its goroutines has the turn. It
// knows nothing of Redis.
package fifo

import (
	"sync"
	"sync/atomic"
)

// A Line gives one goroutine at a time the turn, in order of arrival. The zero Line is free.
//
// Release happens before the next turn begins, as the race detector sees it.
type Line struct {
	state  atomic.Int32
	holder *Waiter // who has the turn, if it came by Join; belongs to the turn

	mu          sync.Mutex
	closed      bool
	spares      int32   // their number
	first, last *Waiter // who waits, in order of arrival
	spare       *Waiter // for the next waiter, linked by next
}

// The states of a Line. Without mu, it changes between free and taken only; so in a crowd no caller
// comes or goes without looking at the waiters.
const (
	free    int32 = iota
	taken         // and no caller waits
	crowded       // taken, and a caller waits
)

// maxSpares bounds what a Line keeps for later waiters.
const maxSpares = 64

// A Waiter has a place in a Line, until Release or Cancel.
type Waiter struct {
	queue      *Line
	turn       chan struct{} // holds one
	given      bool          // the turn has come
	closed     bool          // and it never will
	next, prev *Waiter
}

// TryAcquire takes the turn if it is free.
func (q *Line) TryAcquire() bool { return q.state.CompareAndSwap(free, taken) }

// Join takes a place at the end. The caller has to wait for Granted, or to Cancel.
func (q *Line) Join() *Waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.spare
	if w == nil {
		w = &Waiter{queue: q, turn: make(chan struct{}, 1)}
	} else {
		q.spare, w.next = w.next, nil
		q.spares--
	}
	if q.closed {
		w.closed = true
		w.turn <- struct{}{}
		return w
	}
	for !q.state.CompareAndSwap(taken, crowded) && q.state.Load() != crowded {
		if q.TryAcquire() {
			q.give(w)
			return w
		}
	}
	w.prev = q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	return w
}

// Waiting returns how many wait.
func (q *Line) Waiting() int {
	if q.state.Load() != crowded {
		return 0
	}
	_, waiting := q.Queued()
	return waiting
}

// Queued reports whether a process has the turn, and how many wait for it.
func (q *Line) Queued() (held bool, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for w := q.first; w != nil; w = w.next {
		waiting++
	}
	return q.state.Load() != free, waiting
}

// Granted returns a channel from which the caller receives once it has the turn, until Release; or once
// the Line was closed.
func (w *Waiter) Granted() <-chan struct{} { return w.turn }

// Closed reports, after Granted, that there is no turn because the Line was closed. The waiter then has
// to Cancel.
func (w *Waiter) Closed() bool { return w.closed }

// Cancel gives the place up, and the turn too if it has come meanwhile. It reports whether that has left
// the Line free.
func (w *Waiter) Cancel() (freed bool) {
	q := w.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case w.given:
		q.holder = nil
		freed = !q.pass()
	case !w.closed:
		q.unlink(w)
	}
	q.recycle(w)
	return freed
}

// Release gives the turn to the goroutine that has waited longest. It reports whether there was one.
func (q *Line) Release() (passed bool) {
	w := q.holder
	q.holder = nil
	if w == nil && q.state.CompareAndSwap(taken, free) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if w != nil {
		q.recycle(w)
	}
	return q.pass()
}

// Close sends all waiters away, and all that will come. The process that has the turn keeps it.
func (q *Line) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for q.first != nil {
		w := q.first
		q.unlink(w)
		w.closed = true
		w.turn <- struct{}{}
	}
}

// pass gives the turn on. The caller had it, and holds mu.
func (q *Line) pass() bool {
	w := q.first
	if w == nil {
		q.state.Store(free)
		return false
	}
	q.unlink(w)
	q.give(w)
	return true
}

func (q *Line) give(w *Waiter) {
	w.given = true
	q.holder = w
	w.turn <- struct{}{}
}

func (q *Line) unlink(w *Waiter) {
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev = nil, nil
	if q.first == nil {
		q.state.Store(taken)
	}
}

// recycle keeps w, whom no process knows any more, for a later waiter.
func (q *Line) recycle(w *Waiter) {
	if q.spares == maxSpares {
		return
	}
	select {
	case <-w.turn: // who quits may not have received it
	default:
	}
	w.given, w.closed = false, false
	w.next, q.spare = q.spare, w
	q.spares++
}
