// Package gate is the queue of one key inside a process: which of its goroutines has the turn. It
// knows nothing of Redis.
package gate

import (
	"sync"
	"sync/atomic"
)

// A Gate gives one goroutine at a time the turn, in order of arrival. The zero Gate is free.
//
// Leave happens before the next turn begins, as the race detector sees it.
type Gate struct {
	state  atomic.Int32
	holder *Waiter // who has the turn, if he came by Join; belongs to the turn

	mu          sync.Mutex
	shut        bool
	first, last *Waiter // who waits, in order of arrival
	spare       *Waiter // for the next who waits, linked by next
	spares      int
}

// The states of a Gate. Without mu, it changes between free and taken only; so in a crowd nobody
// leaves or enters without looking at who waits.
const (
	free    int32 = iota
	taken         // and nobody waits
	crowded       // taken, and somebody waits
)

// maxSpares bounds what a Gate keeps for later waiters.
const maxSpares = 64

// A Waiter has a place in the queue of a Gate, until Leave or Quit.
type Waiter struct {
	gate       *Gate
	turn       chan struct{} // holds one
	terms      any
	given      bool // the turn has come
	shut       bool // and it never will
	next, prev *Waiter
}

// TryEnter takes the turn if it is free.
func (g *Gate) TryEnter() bool { return g.state.CompareAndSwap(free, taken) }

// Join takes a place at the end of the queue. The caller has to wait for Turn or to Quit. What he
// waits for, in his own terms, is there for whoever has the turn to see; see Next.
func (g *Gate) Join(terms any) *Waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.spare
	if w == nil {
		w = &Waiter{gate: g, turn: make(chan struct{}, 1)}
	} else {
		g.spare, w.next = w.next, nil
		g.spares--
	}
	w.terms = terms
	if g.shut {
		w.shut = true
		w.turn <- struct{}{}
		return w
	}
	for !g.state.CompareAndSwap(taken, crowded) && g.state.Load() != crowded {
		if g.TryEnter() {
			g.give(w)
			return w
		}
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
func (g *Gate) Queued() (held bool, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for w := g.first; w != nil; w = w.next {
		waiting++
	}
	return g.state.Load() != free, waiting
}

// Turn returns a channel from which the caller receives once he has the turn, until Leave; or once
// the Gate was shut.
func (w *Waiter) Turn() <-chan struct{} { return w.turn }

// Shut reports, to who has received from Turn, whether he got no turn, because the Gate was shut.
// Then he has to Quit.
func (w *Waiter) Shut() bool { return w.shut }

// Quit gives the place up, and the turn too if it has come meanwhile. It reports whether it had, and
// nobody has taken it since.
func (w *Waiter) Quit() (freed bool) {
	g := w.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case w.given:
		g.holder = nil
		freed = !g.pass()
	case !w.shut:
		g.unlink(w)
	}
	g.recycle(w)
	return freed
}

// Leave gives the turn to the goroutine that has waited longest. It reports whether there was one.
func (g *Gate) Leave() (passed bool) {
	w := g.holder
	g.holder = nil
	if w == nil && g.state.CompareAndSwap(taken, free) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w != nil {
		g.recycle(w)
	}
	return g.pass()
}

// Shut sends all who wait away, and all who will. Who has the turn keeps it.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for g.first != nil {
		w := g.first
		g.unlink(w)
		w.shut = true
		w.turn <- struct{}{}
	}
}

// pass gives the turn on. The caller had it, and holds mu.
func (g *Gate) pass() bool {
	w := g.first
	if w == nil {
		g.state.Store(free)
		return false
	}
	g.unlink(w)
	g.give(w)
	return true
}

func (g *Gate) give(w *Waiter) {
	w.given = true
	g.holder = w
	w.turn <- struct{}{}
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
	w.next, w.prev = nil, nil
	if g.first == nil {
		g.state.Store(taken)
	}
}

// recycle keeps w, whom nobody knows any more, for a later waiter.
func (g *Gate) recycle(w *Waiter) {
	if g.spares == maxSpares {
		return
	}
	select {
	case <-w.turn: // who quits may not have received it
	default:
	}
	w.terms, w.given, w.shut = nil, false, false
	w.next, g.spare = g.spare, w
	g.spares++
}
