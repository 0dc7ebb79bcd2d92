// Package fifo is the queue of one key inside a process: which of its goroutines has the turn. It knows nothing of Redis.
package fifo

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// A Line gives one goroutine at a time the turn, in order of arrival. The zero Line is free.
// Release happens before the next turn begins, as the race detector sees it.
type Line struct {
	// n is how many goroutines have the turn, or wait: then one has it. Without mu, it changes between 0 and 1 only.
	n atomic.Int32

	mu      sync.Mutex
	waiters *list.List // of *Waiter, in order of arrival; nil before the first
}

// A Waiter has a place in a Line, until Release or Cancel.
type Waiter struct {
	line    *Line
	granted chan struct{} // closed when it has the turn
	place   *list.Element // of the waiters; nil: it has the turn, or has left
}

func (q *Line) TryAcquire() bool { return q.n.CompareAndSwap(0, 1) }

// Join takes a place at the end. The caller has to wait for Granted, or to Cancel.
func (q *Line) Join() *Waiter {
	w := &Waiter{line: q, granted: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n.Add(1) == 1 {
		close(w.granted)
		return w
	}
	if q.waiters == nil {
		q.waiters = list.New()
	}
	w.place = q.waiters.PushBack(w)
	return w
}

func (q *Line) Waiting() int { return int(max(q.n.Load()-1, 0)) }
func (q *Line) Taken() bool  { return q.n.Load() > 0 }

// Granted returns a channel that is closed when the caller has the turn, until Release.
func (w *Waiter) Granted() <-chan struct{} { return w.granted }

// Cancel gives the place up, and the turn too if it has come meanwhile. It reports whether that has left the Line free.
func (w *Waiter) Cancel() (freed bool) {
	q := w.line
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.place != nil {
		q.remove(w.place)
		return false
	}
	return !q.pass()
}

// Release gives the turn to the goroutine that has waited longest. It reports whether there was one.
func (q *Line) Release() (passed bool) {
	if q.n.CompareAndSwap(1, 0) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pass()
}

// pass gives the turn on. The caller had it, and holds mu.
func (q *Line) pass() bool {
	if q.Waiting() == 0 {
		q.n.Add(-1)
		return false
	}
	close(q.remove(q.waiters.Front()).granted)
	return true
}

// remove takes a waiter out. The caller holds mu.
func (q *Line) remove(place *list.Element) *Waiter {
	w := q.waiters.Remove(place).(*Waiter)
	w.place = nil
	q.n.Add(-1)
	return w
}
