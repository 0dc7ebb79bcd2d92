// Package fifo is the queue of one key inside a process. It decides which goroutine has the turn. It knows nothing of Redis.
package fifo

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// A Line gives the turn to one goroutine at a time, in order of arrival. The zero Line is free.
// Pass and TryRelease happen before the next turn begins, as the race detector sees it.
type Line struct {
	// n counts the goroutines that have the turn or wait: if any, one has it. Without mu, n changes only between 0 and 1.
	n atomic.Int32

	mu      sync.Mutex
	waiters *list.List // of *Waiter, in order of arrival; nil before the first
}

// A Waiter has a place in a Line until it gets the turn or cancels.
type Waiter struct {
	line    *Line
	granted chan struct{} // closed when the Waiter gets the turn
	place   *list.Element // in line.waiters; nil: the Waiter got the turn or left
}

// TryAcquire takes the turn if the Line is free. TryRelease frees the Line if no goroutine waits. Each reports whether it did.
func (q *Line) TryAcquire() bool { return q.n.CompareAndSwap(0, 1) }
func (q *Line) TryRelease() bool { return q.n.CompareAndSwap(1, 0) }

// Join takes a place at the end of the Line. The caller must wait for Granted or call Cancel.
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

func (w *Waiter) Granted() <-chan struct{} { return w.granted }

// Cancel gives up the place. It reports false if the turn has come in the meantime: then the caller has the turn.
func (w *Waiter) Cancel() bool {
	q := w.line
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.place == nil {
		return false
	}
	q.remove(w.place)
	return true
}

// Pass gives the turn to the goroutine that has waited longest. If none waits, it reports false: the caller keeps the turn.
func (q *Line) Pass() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.Waiting() == 0 {
		return false
	}
	close(q.remove(q.waiters.Front()).granted)
	return true
}

// remove takes a waiter out of the Line. The caller holds mu.
func (q *Line) remove(place *list.Element) *Waiter {
	w := q.waiters.Remove(place).(*Waiter)
	w.place = nil
	q.n.Add(-1)
	return w
}
