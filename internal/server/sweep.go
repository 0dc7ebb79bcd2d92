package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// A sweeper gives back what tries of unknown outcome may have left on its server, and what a
// release could not reach, so that no lock outlives its owner by more than the server's silence.
// It has one goroutine, which lives only while there is something to sweep.
type sweeper struct {
	server *Server

	mu      sync.Mutex
	litter  []litter
	running bool
	closed  bool
	done    chan struct{} // closed when the goroutine has ended, if running
	stop    chan struct{} // closed by close: no more waiting
	wake    chan struct{} // something new, when the goroutine sleeps
}

// litter is a token that may still lock its key.
type litter struct {
	Request
	next  time.Time // when to try
	again time.Time // the try that we clean up after may be executed until then
	doubt bool      // or even later, though not after a command that we send when the server has answered one
	until time.Time // the lock has expired by then
}

// maxLitter bounds the memory that a dead server costs. What is dropped expires by itself.
const maxLitter = 16384

// The wait between two attempts on a server that does not answer.
const (
	minSweep = 20 * time.Millisecond
	maxSweep = time.Second
)

// Sweep releases the lock of r in the background: the caller could not, or did not want to wait.
func (s *Server) Sweep(r *Request) { s.sweep(litter{Request: *r, again: r.Again}) }

// sweepTry cleans up after a try of unknown outcome, which the server may still execute: until the
// deadline if it carries that, else whenever the server finds it in its buffers.
func (s *Server) sweepTry(r *Request, deadline time.Time) {
	s.sweep(litter{Request: *r, again: deadline, doubt: r.Plain})
}

func (s *Server) sweep(l litter) {
	l.Heir = nil // he does not wait for so long
	l.next = time.Now()
	l.until = l.next.Add(max(l.TTL, l.Keep) + l.Timeout)
	w := &s.sweeper
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.litter) >= maxLitter {
		return
	}
	w.litter = append(w.litter, l)
	if w.running {
		select {
		case w.wake <- struct{}{}:
		default:
		}
		return
	}
	w.running = true
	w.done, w.stop, w.wake = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	go w.run()
}

func (w *sweeper) run() {
	defer close(w.done)
	backoff := minSweep
	for {
		batch, wait, last := w.due()
		if batch == nil && wait == 0 {
			return
		}
		if batch != nil {
			if w.release(batch) {
				backoff = minSweep
			} else {
				w.postpone(backoff)
				backoff = min(2*backoff, maxSweep)
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
func (w *sweeper) due() (batch []litter, wait time.Duration, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	keep := w.litter[:0]
	var next time.Time
	for _, l := range w.litter {
		if now.After(l.until) {
			continue
		}
		keep = append(keep, l)
		if !l.next.After(now) && len(batch) < 128 {
			batch = append(batch, l)
		}
		if next.IsZero() || l.next.Before(next) {
			next = l.next
		}
	}
	clear(w.litter[len(keep):])
	w.litter = keep
	if len(keep) == 0 {
		w.running = false
		w.litter = nil
		return nil, 0, true
	}
	return batch, max(next.Sub(now), time.Millisecond), w.closed
}

// release tries to give back a batch and forgets what is done. It reports whether the server answered.
func (w *sweeper) release(batch []litter) bool {
	if len(batch) > 1 && w.server.cluster.Load() {
		return w.releaseEach(batch)
	}
	ses, err := w.server.open(time.Now().Add(batch[0].Timeout), batch[0].Key)
	if err != nil {
		return false
	}
	defer ses.close()
	if ses.pinned {
		batch = batch[:1]
	}
	commands := make([]command, len(batch))
	for i := range batch {
		commands[i] = releasing(&batch[i].Request, new(arguments), ses.pinned)
	}
	sent := time.Now()
	raw, err := ses.evalAll(commands)
	if err != nil {
		return false
	}
	verdicts := make(map[string]Reply, len(batch)) // by token
	answered := true
	for i, l := range batch {
		reply := parseEnd(raw[i], nil, sent)
		if reply.Verdict == Failed && !Permanent(reply.Err) {
			answered = false
			continue
		}
		verdicts[l.Token] = reply
	}
	w.settle(verdicts)
	return answered
}

// releaseEach releases a batch side by side, because the keys may be on different nodes of a cluster: one
// that hangs must not keep the others waiting.
func (w *sweeper) releaseEach(batch []litter) bool {
	var each sync.WaitGroup
	var silent atomic.Bool
	for i := range batch {
		each.Go(func() {
			if !w.release(batch[i : i+1]) {
				silent.Store(true)
			}
		})
	}
	each.Wait()
	return !silent.Load()
}

// settle forgets what is done, and puts the rest off until its try is certainly over.
func (w *sweeper) settle(verdicts map[string]Reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keep := w.litter[:0]
	for _, l := range w.litter {
		reply, tried := verdicts[l.Token]
		switch over := tried && !reply.Sent.Before(l.again); {
		case tried && (reply.Verdict == Done || reply.Verdict == Failed):
			continue
		case over && !l.doubt:
			continue
		case over:
			l.doubt, l.next = false, time.Now()
		case tried:
			l.next = l.again
		}
		keep = append(keep, l)
	}
	clear(w.litter[len(keep):])
	w.litter = keep
}

// postpone puts off everything that is due.
func (w *sweeper) postpone(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := time.Now().Add(d)
	for i := range w.litter {
		if w.litter[i].next.Before(next) {
			w.litter[i].next = next
		}
	}
}

// close ends the goroutine after one more attempt, and waits for that, d at most.
func (w *sweeper) close(d time.Duration) {
	w.mu.Lock()
	wasClosed, running, done := w.closed, w.running, w.done
	w.closed = true
	for i := range w.litter {
		w.litter[i].next = time.Time{}
	}
	if running && !wasClosed {
		close(w.stop)
	}
	w.mu.Unlock()
	if !running {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
