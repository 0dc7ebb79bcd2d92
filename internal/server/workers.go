package server

import (
	"sync"
	"time"
)

// workers are the goroutines that run what may block for longer than its caller waits. They are used again, because a
// fresh goroutine has to grow its stack each time.
type workers struct {
	mu      sync.Mutex
	idle    []*worker // the one that was used last at the end
	janitor *time.Timer
	closed  bool
}

// maxIdle is how long a worker waits for more to do.
const maxIdle = time.Second

type worker struct {
	next  chan *operation // has room for one
	since time.Time
}

// run has a worker run op.
func (w *workers) run(op *operation) {
	w.mu.Lock()
	if n := len(w.idle); n > 0 {
		k := w.idle[n-1]
		w.idle[n-1] = nil
		w.idle = w.idle[:n-1]
		w.mu.Unlock()
		k.next <- op
		return
	}
	w.mu.Unlock()
	k := &worker{next: make(chan *operation, 1)}
	k.next <- op
	go func() {
		for op := range k.next {
			op.run()
			if !w.rest(k) {
				op.finish()
				return
			}
			op.finish() // whose caller may have the next one for us already
		}
	}()
}

// rest makes a worker one that waits for more to do, if it may.
func (w *workers) rest(k *worker) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	k.since = time.Now()
	w.idle = append(w.idle, k)
	if w.janitor == nil {
		w.janitor = time.AfterFunc(maxIdle, w.tidy)
	}
	return true
}

// tidy ends the workers that have had nothing to do for a while.
func (w *workers) tidy() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	over := 0
	for over < len(w.idle) && time.Since(w.idle[over].since) >= maxIdle {
		close(w.idle[over].next)
		over++
	}
	n := copy(w.idle, w.idle[over:])
	clear(w.idle[n:])
	w.idle = w.idle[:n]
	w.janitor = nil
	if n > 0 {
		w.janitor = time.AfterFunc(maxIdle, w.tidy)
	}
}

// close ends those that have nothing to do, and the others when they are done.
func (w *workers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.janitor != nil {
		w.janitor.Stop()
	}
	for _, k := range w.idle {
		close(k.next)
	}
	w.idle = nil
}
