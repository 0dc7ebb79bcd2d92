package server

import (
	"sync"
	"time"
)

// A runner releases claims that no caller waits for, so that no lock outlives its owner by more than the node's silence.
// It has one goroutine, which lives only while something is pending.
type runner struct {
	server *Server

	mu      sync.Mutex
	pending []pursuit
	running bool
	closed  bool
	done    chan struct{} // closed when the goroutine has ended, if running
	wake    chan struct{} // something new
	stop    chan struct{} // closed by close: no more waiting
}

// A pursuit is a claim that is to be released at a time, and given up at another.
type pursuit struct {
	claim     *Claim
	at, until time.Time
	overtakes bool // a command of the claim is under way
}

const (
	// maxPending bounds the memory that a dead node costs. What is dropped expires by itself.
	maxPending = 16384
	// releaseBatch is how many go in one round trip.
	releaseBatch = 128
	// The pause after a round trip that the node did not answer grows from the one to the other.
	minPause = 20 * time.Millisecond
	maxPause = time.Second
)

// runner returns the runner for c.
func (s *Server) runner(c *Claim) *runner { return &s.nodes.of(c.Key).runner }

// add takes a claim in. It reports false if it is given up.
func (w *runner) add(c *Claim, at, until time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.pending) >= maxPending || time.Now().After(until) {
		return false
	}
	w.pending = append(w.pending, pursuit{c, at, until, c.running > 0})
	if w.running {
		w.rouse()
		return true
	}
	w.running = true
	w.done, w.wake, w.stop = make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
	go w.run()
	return true
}

// hasten has a claim released now that was to wait for the end of a command.
func (w *runner) hasten(c *Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.pending {
		if p := &w.pending[i]; p.claim == c && p.overtakes {
			p.at, p.overtakes = time.Now(), false
			w.rouse()
		}
	}
}

// rouse wakes the goroutine. The caller holds w.mu.
func (w *runner) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *runner) run() {
	defer close(w.done)
	pause := minPause
	for {
		batch, wait, over := w.due()
		if over {
			return
		}
		if batch != nil {
			if w.server.releaseAll(batch) {
				pause = minPause
				continue
			}
			wait, pause = pause, min(2*pause, maxPause)
		}
		wake := w.wake
		if batch != nil {
			wake = nil // the node has just not answered
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-wake:
		case <-w.stop:
		}
		timer.Stop()
	}
}

// due returns what to release now, or how long to wait. over: nothing is left, and the goroutine has to end. After close
// everything is due, once.
func (w *runner) due() (batch []*Claim, wait time.Duration, over bool) {
	var givenUp []*Claim
	w.mu.Lock()
	now := time.Now()
	wait = maxPause
	rest := w.pending[:0]
	for _, p := range w.pending {
		switch {
		case now.After(p.until):
			givenUp = append(givenUp, p.claim)
		case len(batch) < releaseBatch && (w.closed || !p.at.After(now)):
			batch = append(batch, p.claim)
		default:
			wait = min(wait, max(p.at.Sub(now), time.Millisecond))
			rest = append(rest, p)
		}
	}
	clear(w.pending[len(rest):])
	w.pending = rest
	if over = len(batch) == 0 && len(rest) == 0; over {
		w.running, w.pending = false, nil
	}
	w.mu.Unlock()
	for _, c := range givenUp {
		c.GiveUp()
	}
	return batch, wait, over
}

// close takes nothing more in, and has what is pending released for one last time.
func (w *runner) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed && w.running {
		close(w.stop)
	}
	w.closed = true
}

// wait waits until that was done, until end at most.
func (w *runner) wait(end time.Time) {
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
