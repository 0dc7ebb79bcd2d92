package workers_test

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/workers"
)

// A job has a goroutine do run, and says when it is over.
type job struct {
	run  func()
	over chan struct{}
}

func (j *job) Run()    { j.run() }
func (j *job) Finish() { close(j.over) }

// start has p do f.
func start(p *workers.Pool, f func()) (over chan struct{}) {
	j := &job{run: f, over: make(chan struct{})}
	p.Run(j)
	return j.over
}

// self returns the line that names this goroutine.
func self() string {
	stack := make([]byte, 100)
	name, _, _ := strings.Cut(string(stack[:runtime.Stack(stack, false)]), "[")
	return name
}

func TestAWorkerIsUsedAgainAsSoonAsItsJobIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p workers.Pool
		defer p.Close()
		var first, next string
		<-start(&p, func() { first = self() })
		for range 100 {
			<-start(&p, func() { next = self() })
			assert.Equal(t, first, next)
		}
	})
}

func TestJobsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	var p workers.Pool
	defer p.Close()
	hung := make(chan struct{})
	first := start(&p, func() { <-hung })
	<-start(&p, func() {})
	close(hung)
	<-first
}

func TestWorkersWithoutAJobEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p workers.Pool
		var first, next string
		<-start(&p, func() { first = self() })
		time.Sleep(3 * time.Second)
		<-start(&p, func() { next = self() })
		assert.NotEqual(t, first, next)
		p.Close() // or the bubble would not end
	})
}

func TestAfterCloseEachJobHasAGoroutineOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p workers.Pool
		during := start(&p, func() { time.Sleep(time.Second) })
		p.Close()
		<-during
		<-start(&p, func() {})
	})
}
