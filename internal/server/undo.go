package server

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// An undoer gives back what tries of unknown outcome may have left on its node, and what a
// release could not reach, so that no lock outlives its owner by more than the node's silence.
// It has one goroutine, which lives only while something is pending.
type undoer struct {
	server *Server
	failed atomic.Bool // the last attempt, so the next one is made over a fresh connection

	mu      sync.Mutex
	pending map[undoID]*undo
	running bool
	closed  bool
	done    chan struct{} // closed when the goroutine has ended, if running
	stop    chan struct{} // closed by closing: no more waiting
	wake    chan struct{} // something new, when the goroutine sleeps
}

// An undoID is what an undo is about: two of the same are one.
type undoID struct{ key, token, ticket string }

// An undo is a release that is to be repeated until it was answered.
type undo struct {
	Release
	next  time.Time       // when to try
	kept  time.Time       // with Keep: when the lock is to expire
	tried []chan struct{} // closed after an attempt
}

// attempted says that there was an attempt, or will be none. The caller holds the mu of the undoer.
func (u *undo) attempted() {
	for _, c := range u.tried {
		close(c)
	}
	u.tried = nil
}

// now is the release as it is to be sent now.
func (u *undo) now() *Release {
	r := u.Release
	if r.Keep > 0 {
		r.Keep = max(time.Until(u.kept), time.Millisecond)
	}
	return &r
}

// maxPending bounds the memory that a dead node costs. What is dropped expires by itself.
const maxPending = 16384

// undoBatch is how many go in one round trip.
const undoBatch = 128

// The wait between two attempts on a node that does not answer.
const (
	minUndoWait = 20 * time.Millisecond
	maxUndoWait = time.Second
)

// defaultUndo is how long the background goes on where nobody says how long the key may live.
const defaultUndo = time.Minute

// Undo releases the lock of r in the background: the caller could not, or did not want to wait. After Close there is no
// background, and it is tried once before Undo returns. The channel is closed after an attempt, whatever came of it, or
// when one that was under way has found no answer.
func (s *Server) Undo(r *Release) (tried <-chan struct{}) {
	c := make(chan struct{})
	w, u := s.undoLater(r, c)
	if u != nil {
		w.release([]*undo{u})
	}
	return c
}

// later is Undo for a release that has failed just now. The channel is nil if it is too late for one.
func (s *Server) later(r *Release) (tried <-chan struct{}) {
	c := make(chan struct{})
	if _, u := s.undoLater(r, c); u != nil {
		return nil
	}
	return c
}

// undoLater hands r to the background. It returns what it is too late for.
func (s *Server) undoLater(r *Release, tried ...chan struct{}) (*undoer, *undo) {
	u := &undo{Release: *r, next: time.Now(), tried: tried}
	u.Next = nil // it does not wait for so long
	if u.Until.IsZero() {
		u.Until = u.next.Add(defaultUndo)
	}
	if u.kept = u.next.Add(u.Keep); u.Until.Before(u.kept) {
		u.Until = u.kept
	}
	w := &s.nodes.of(r.Key).undos
	if w.add(u) {
		return w, nil
	}
	return w, u
}

// rollBack describes how to undo the try of op, which the server may still execute: until open if it carries that as its
// deadline, else, if it was plain, whenever the server finds it in its buffers.
func (op *operation) rollBack(open time.Time, plain bool) *Release {
	t := &op.try
	r := t.Release(time.Now(), t.TTL)
	r.Open, r.Doubt = open, plain
	if t.Ticket.Arrived == 0 && !t.Ticket.Rejoin {
		r.Ticket = t.Ticket // else it goes on waiting, and what it is handed is its own
	}
	return &r
}

// undo undoes the try of op in the background.
func (op *operation) undo(open time.Time, plain bool) {
	if !op.try.Regain {
		op.server.undoLater(op.rollBack(open, plain))
	}
}

// add takes u in, or drops it; it reports false if it is too late for it.
func (w *undoer) add(u *undo) bool {
	id := undoID{u.Key, u.Token, u.Ticket.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return false
	case len(w.pending) >= maxPending:
		u.attempted()
		return true
	}
	if old := w.pending[id]; old != nil {
		u.Open, u.Until = latest(u.Open, old.Open), latest(u.Until, old.Until)
		u.Doubt = u.Doubt || old.Doubt
		u.tried, old.tried = append(u.tried, old.tried...), nil
	}
	if w.pending == nil {
		w.pending = make(map[undoID]*undo)
	}
	w.pending[id] = u
	if w.running {
		select {
		case w.wake <- struct{}{}:
		default:
		}
		return true
	}
	w.running = true
	w.done, w.stop, w.wake = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	go w.run()
	return true
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (w *undoer) run() {
	defer close(w.done)
	backoff := minUndoWait
	for {
		batch, wait, last := w.due()
		if batch == nil && wait == 0 {
			return
		}
		if batch != nil {
			if w.release(batch) {
				backoff = minUndoWait
			} else {
				w.postpone(backoff)
				backoff = min(2*backoff, maxUndoWait)
			}
			continue
		}
		if last {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.stop:
		}
		timer.Stop()
	}
}

// due returns what to release now; or else how long to wait, 0 when nothing is left and the
// goroutine has to end. last reports that there is no time left for waiting.
func (w *undoer) due() (batch []*undo, wait time.Duration, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	var next time.Time
	for id, u := range w.pending {
		if now.After(u.Until) {
			delete(w.pending, id)
			u.attempted()
			continue
		}
		if !u.next.After(now) && len(batch) < undoBatch {
			batch = append(batch, u)
		}
		if next.IsZero() || u.next.Before(next) {
			next = u.next
		}
	}
	if len(w.pending) == 0 {
		w.running = false
		w.pending = nil
		return nil, 0, true
	}
	// Always in the same order, so that what goes wrong here can be replayed.
	slices.SortFunc(batch, func(a, b *undo) int {
		return cmp.Or(strings.Compare(a.Token, b.Token), strings.Compare(a.Ticket.Name, b.Ticket.Name))
	})
	return batch, max(next.Sub(now), time.Millisecond), w.closed
}

// attempted says so of a batch.
func (w *undoer) attempted(batch []*undo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range batch {
		u.attempted()
	}
}

// conclude forgets an undo that is done, and puts others off until their try is certainly over.
func (w *undoer) conclude(u *undo, reply Reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := undoID{u.Key, u.Token, u.Ticket.Name}
	if w.pending[id] != u {
		return // it was asked for again meanwhile
	}
	switch over := !reply.Sent.Before(u.Open); {
	case reply.Verdict == Done && u.Keep == 0 && over, reply.Verdict == Failed, over && !u.Doubt:
		delete(w.pending, id)
	case over:
		// What the node finds in its buffers, it executes before a command that we send when it has answered one.
		u.Doubt, u.next = false, time.Now()
	default:
		u.next = u.Open
	}
}

// postpone puts off everything that is due. Whoever waits for that waits no longer: the node has just not answered.
func (w *undoer) postpone(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := time.Now().Add(d)
	for _, u := range w.pending {
		if u.next.Before(next) {
			u.next = next
			u.attempted()
		}
	}
}

// closing takes nothing more in, and has what is pending tried for one last time.
func (w *undoer) closing() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	for _, u := range w.pending {
		u.next = time.Time{}
	}
	if w.running {
		close(w.stop)
	}
}

// close waits until that was done, until end at most.
func (w *undoer) close(end time.Time) {
	w.mu.Lock()
	running, done := w.running, w.done
	w.mu.Unlock()
	if !running {
		return
	}
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
