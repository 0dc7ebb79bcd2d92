package server

import (
	"slices"
	"sync"
	"time"
)

// A runner releases claims that no caller waits for, so that no lock outlives its owner by more than the node's silence.
// It has one goroutine, which lives only while something is pending.
type runner struct {
	server *Server

	mu      sync.Mutex
	pending []pursuit     // in order of arrival, each claim once
	pause   time.Duration // after the last round trip, if the node was not fit for the next
	rests   time.Duration // until then, since epoch; not in Close
	wake    chan struct{} // something new; nil while there is no goroutine
}

// A pursuit is a claim that is to be released at a time, and given up at another.
type pursuit struct {
	claim     *Claim
	at, until time.Duration // since epoch
}

const (
	maxPending   = 16384 // bounds the memory that a dead node costs; what is dropped expires by itself
	releaseBatch = 128   // how many go in one round trip
	// The pause after a round trip that the node did not answer, or refused, grows from the one to the other.
	minPause = 20 * time.Millisecond
	maxPause = time.Second
)

func (s *Server) runner(c *Claim) *runner { return &s.nodes.of(c.Key).runner }

// add has the runner send a release at that time. One that is pending is sent then instead. It reports false if the runner is
// full or closed, or if the claim has expired.
func (w *runner) add(c *Claim, at, until time.Duration) bool {
	all := &w.server.runners
	all.Enter() // Close waits for this claim, or we see that it is closing
	defer all.Leave()
	w.mu.Lock()
	defer w.mu.Unlock()
	if all.Closing() || len(w.pending) >= maxPending || time.Since(epoch) > until {
		return false
	}
	if w.wake == nil {
		wake := make(chan struct{}, 1)
		w.wake = wake
		all.Go(func() { w.run(wake) })
	}
	if p := w.pursuit(c); p != nil {
		p.at, p.until = at, until
	} else {
		w.pending = append(w.pending, pursuit{c, at, until})
	}
	w.rouse()
	return true
}

// pursuit returns that of a claim, or nil. The caller holds w.mu.
func (w *runner) pursuit(c *Claim) *pursuit {
	if i := slices.IndexFunc(w.pending, func(p pursuit) bool { return p.claim == c }); i >= 0 {
		return &w.pending[i]
	}
	return nil
}

// hasten has a claim released now: what it waited for is over, or the next one waits for it. Nil: what is due.
func (w *runner) hasten(c *Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.pursuit(c); p != nil {
		p.at = time.Since(epoch)
		w.rests = p.at
	}
	w.rouse()
}

// rouse wakes the goroutine. The caller holds w.mu.
func (w *runner) rouse() {
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
			if w.pause = min(max(2*w.pause, minPause), maxPause); answered {
				w.pause = 0
			}
			w.rests = time.Since(epoch) + w.pause
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

// due returns what to release now, or how long to wait; 0: nothing is left, and the goroutine has to end. In Close
// everything is due, once.
func (w *runner) due() (batch []*Claim, wait time.Duration) {
	w.mu.Lock()
	now, last := time.Since(epoch), w.server.runners.Closing()
	wait = maxPause
	if last {
		w.rests = now
	}
	rest := w.pending[:0]
	for _, p := range w.pending {
		switch {
		case now > p.until:
			defer p.claim.giveUp() // after the unlock
		case w.rests <= now && len(batch) < releaseBatch && (last || p.at <= now):
			batch = append(batch, p.claim)
		default:
			wait = min(wait, max(p.at-now, w.rests-now, time.Millisecond))
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
