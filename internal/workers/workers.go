// Package workers has goroutines that are used again, because a fresh goroutine has to grow its stack each time.
package workers

import (
	"sync"
	"time"
)

// A Job is what a worker does.
type Job interface {
	Run()
	// Finish ends the job. The worker may have its next one by then, from the goroutine that hears of the end.
	Finish()
}

// A Pool has as many workers as there are jobs at a time. The zero Pool can be used.
type Pool struct {
	mu      sync.Mutex
	idle    []*worker // the one that was used last at the end
	janitor *time.Timer
	closed  bool
}

// maxIdle is how long a worker waits for more to do.
const maxIdle = time.Second

type worker struct {
	next  chan Job // has room for one
	since time.Time
}

// Run has a worker do j.
func (p *Pool) Run(j Job) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		k := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		k.next <- j
		return
	}
	p.mu.Unlock()
	k := &worker{next: make(chan Job, 1)}
	k.next <- j
	go func() {
		for j := range k.next {
			j.Run()
			if !p.rest(k) {
				j.Finish()
				return
			}
			j.Finish()
		}
	}()
}

// rest makes a worker one that waits for more to do, if it may.
func (p *Pool) rest(k *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	k.since = time.Now()
	p.idle = append(p.idle, k)
	if p.janitor == nil {
		p.janitor = time.AfterFunc(maxIdle, p.tidy)
	}
	return true
}

// tidy ends the workers that have had nothing to do for a while.
func (p *Pool) tidy() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	over := 0
	for over < len(p.idle) && time.Since(p.idle[over].since) >= maxIdle {
		close(p.idle[over].next)
		over++
	}
	n := copy(p.idle, p.idle[over:])
	clear(p.idle[n:])
	p.idle = p.idle[:n]
	p.janitor = nil
	if n > 0 {
		p.janitor = time.AfterFunc(maxIdle, p.tidy)
	}
}

// Close ends the workers that have nothing to do, and the others when they are done.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.janitor != nil {
		p.janitor.Stop()
	}
	for _, k := range p.idle {
		close(k.next)
	}
	p.idle = nil
}
