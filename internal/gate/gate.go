// Package gate is the queue of one key inside a process: which of its goroutines has the turn. It
// knows nothing of Redis.
package gate

import "sync"

// A Gate gives one goroutine at a time the turn, in order of arrival. The zero Gate is free.
//
// Leave happens before the next turn begins, as the race detector sees it.
type Gate struct {
	mu          sync.Mutex
	taken       bool
	first, last *Waiter // who waits, in order of arrival
}

// A Waiter has a place in the queue of a Gate.
type Waiter struct {
	gate       *Gate
	turn       chan struct{}
	terms      any
	next, prev *Waiter
}

// TryEnter takes the turn if it is free.
func (g *Gate) TryEnter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.taken {
		return false
	}
	g.taken = true
	return true
}

// Join takes a place at the end of the queue. The caller has to wait for Turn or to Quit. What he
// waits for, in his own terms, is there for whoever has the turn to see; see Next.
func (g *Gate) Join(terms any) *Waiter {
	w := &Waiter{gate: g, turn: make(chan struct{}), terms: terms}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.taken {
		g.taken = true
		close(w.turn)
		return w
	}
	w.prev = g.last
	if g.last == nil {
		g.first = w
	} else {
		g.last.next = w
	}
	g.last = w
	return w
}

// Next returns the terms of the one who waits first, or nil if nobody waits.
func (g *Gate) Next() any {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first == nil {
		return nil
	}
	return g.first.terms
}

// Queued reports whether somebody has the turn, and how many wait for it.
func (g *Gate) Queued() (taken bool, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for w := g.first; w != nil; w = w.next {
		waiting++
	}
	return g.taken, waiting
}

// Turn returns a channel that is closed when the caller has the turn, until it calls Leave.
func (w *Waiter) Turn() <-chan struct{} { return w.turn }

// Quit gives the place up, and the turn too if it has come meanwhile. It reports whether it had, and
// nobody has taken it since.
func (w *Waiter) Quit() (freed bool) {
	g := w.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w.turn:
		return !g.pass()
	default:
		g.unlink(w)
		return false
	}
}

// Leave gives the turn to the goroutine that has waited longest. It reports whether there was one.
func (g *Gate) Leave() (passed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pass()
}

func (g *Gate) pass() bool {
	w := g.first
	if w == nil {
		g.taken = false
		return false
	}
	g.unlink(w)
	close(w.turn)
	return true
}

func (g *Gate) unlink(w *Waiter) {
	if w.prev == nil {
		g.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		g.last = w.prev
	} else {
		w.next.prev = w.prev
	}
}
