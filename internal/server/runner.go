package server

import (
	"slices"
	"sync"
	"time"
)

// A runner releases claims in the background, so that no lock outlives its owner by more than the node's silence. It has one
// goroutine, which lives only while a task is pending.
type runner struct {
	server *Server

	mu      sync.Mutex    // guards the fields below
	pending []task        // in order of arrival, each claim once
	backoff time.Duration // the pause after the last round trip; 0: the node has answered that
	resumes time.Duration // when the pause is over, since epoch; in Close at once
	wake    chan struct{} // gets a message when the tasks have changed; nil while there is no goroutine
}

// A task is a claim, when to release it, and when to give it up.
type task struct {
	claim     *Claim
	at, until time.Duration // since epoch
}

const (
	maxPending              = 16384         // bounds the memory that a dead node costs; a lock that is given up expires by itself
	releaseBatch, hungBytes = 128, 12 << 10 // of one round trip; of more than 16 KiB a server that hangs in Close may lose the rest
	// The pause after a round trip that the node did not answer, or refused, grows from minBackoff to maxBackoff.
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

func (s *Server) runner(c *Claim) *runner { return &s.nodes.at(c.Key).node.runner }

// add makes the runner release c at that time. A release of c that is pending already is rescheduled. It reports false if the
// runner is full or closed.
func (w *runner) add(c *Claim, at, until time.Duration) bool {
	all := &w.server.runners
	all.Enter() // either Close waits for this claim, or Closing is true below
	defer all.Leave()
	w.mu.Lock()
	defer w.mu.Unlock()
	if all.Closing() || len(w.pending) >= maxPending {
		return false
	}
	if w.wake == nil {
		wake := make(chan struct{}, 1)
		w.wake, w.backoff = wake, max(w.backoff, minBackoff/2) // whether the node answers is not known yet
		all.Go(func() { w.run(wake) })
	}
	if p := w.find(c); p != nil {
		p.at, p.until = at, until
	} else {
		w.pending = append(w.pending, task{c, at, until})
	}
	w.signal()
	return true
}

// find returns the task of a claim, or nil. The caller holds w.mu.
func (w *runner) find(c *Claim) *task {
	if i := slices.IndexFunc(w.pending, func(p task) bool { return p.claim == c }); i >= 0 {
		return &w.pending[i]
	}
	return nil
}

// expedite makes the runner release c now: what it waited for is over, or the next claim waits for it. Nil: only look again.
func (w *runner) expedite(c *Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.find(c); p != nil {
		p.at = Monotonic()
		w.resumes = p.at
	}
	w.signal()
}

// signal wakes the goroutine. The caller holds w.mu.
func (w *runner) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *runner) run(wake chan struct{}) {
	for {
		batch, wait := w.due()
		if batch != nil {
			answered := w.server.releaseAll(w.server.background, batch)
			w.mu.Lock()
			w.backoff = min(max(2*w.backoff, minBackoff), maxBackoff)
			if answered {
				w.backoff = 0
			}
			w.resumes = Monotonic() + w.backoff
			w.mu.Unlock()
			continue
		}
		if wait == 0 {
			return
		}
		select {
		case <-time.After(wait):
		case <-wake:
		}
	}
}

// due returns the claims to release now, or how long to wait; 0: none is left, the goroutine ends. In Close each is due once.
func (w *runner) due() (batch []*Claim, wait time.Duration) {
	w.mu.Lock()
	now, last := Monotonic(), w.server.runners.Closing()
	wait = maxBackoff
	if last {
		w.resumes = now
	}
	rest, size := w.pending[:0], 0
	for _, p := range w.pending {
		switch {
		case now > p.until:
			defer p.claim.giveUp() // after the unlock
		case w.resumes <= now && len(batch) < releaseBatch && (last || p.at <= now) && (size < hungBytes || !last && w.backoff == 0):
			for key := range p.claim.Keys { // the key and its siblings
				size += 128 + (2+len(p.claim.Kind.keys))*(32+len(key))
			}
			batch = append(batch, p.claim)
		default:
			wait = min(wait, max(p.at-now, w.resumes-now, time.Millisecond))
			rest = append(rest, p)
		}
	}
	clear(w.pending[len(rest):])
	w.pending = rest
	if len(batch) == 0 && len(rest) == 0 {
		w.pending, w.wake, wait = nil, nil, 0
	}
	w.mu.Unlock()
	return batch, wait
}
