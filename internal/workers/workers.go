// Package workers has goroutines that are used again, because a fresh goroutine has to grow its stack each time.
package workers

import (
	"sync"
	"time"
)

// A Job is what a worker does.
type Job interface {
	Run()
	Finish() // ends the job
}

// A Pool has as many workers as there are jobs at a time. The zero Pool can be used.
type Pool struct {
	once   sync.Once
	jobs   chan Job      // a worker that waits for more to do receives from it
	closed chan struct{} // closed by Close
	close  sync.Once
}

// maxIdle is how long a worker waits for more to do.
const maxIdle = time.Second

func (p *Pool) init() { p.jobs, p.closed = make(chan Job), make(chan struct{}) }

// Run has a worker do j: one that waits for more to do, or a new one.
func (p *Pool) Run(j Job) {
	p.once.Do(p.init)
	select {
	case p.jobs <- j:
	default:
		go p.work(j)
	}
}

func (p *Pool) work(j Job) {
	idle := time.NewTimer(maxIdle)
	defer idle.Stop()
	for {
		j.Run()
		j.Finish()
		idle.Reset(maxIdle)
		select {
		case j = <-p.jobs:
		case <-idle.C:
			return
		case <-p.closed:
			return
		}
	}
}

// Close ends the workers that have nothing to do, and the others when they are done.
func (p *Pool) Close() {
	p.once.Do(p.init)
	p.close.Do(func() { close(p.closed) })
}
