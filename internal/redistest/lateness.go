package redistest

import (
	"sync"
	"time"
)

// A Lateness is how late this machine, and this process, let a goroutine run that wanted to sleep for
// a moment. A test that measures times measures this beside them.
type Lateness struct {
	stop chan struct{}
	over sync.WaitGroup
	sum  time.Duration
}

// MeasureLateness measures until Stop.
func MeasureLateness() *Lateness {
	l := &Lateness{stop: make(chan struct{})}
	l.over.Go(func() {
		const nap = 2 * time.Millisecond
		for {
			select {
			case <-l.stop:
				return
			default:
			}
			began := time.Now()
			time.Sleep(nap)
			if late := time.Since(began) - nap; late > time.Millisecond {
				l.sum += late
			}
		}
	})
	return l
}

// Stop returns by how much it was late in all.
func (l *Lateness) Stop() time.Duration {
	close(l.stop)
	l.over.Wait()
	return l.sum
}
