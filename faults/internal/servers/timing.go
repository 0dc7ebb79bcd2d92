package servers

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// Times are how long things took.
type times []time.Duration

// quantile returns the time that a share of q of all does not exceed.
func (t times) quantile(q float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func (t times) worst() time.Duration { return t.quantile(1) }

// ms writes a time in the unit of the table.
func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }

// Hiccups are how late this machine wakes a goroutine up that does nothing but look at the clock.
// What is measured beside it can't be more punctual.
type hiccups struct {
	stop chan struct{}
	done sync.WaitGroup
	late times
}

func watchHiccups() *hiccups {
	h := &hiccups{stop: make(chan struct{})}
	h.done.Go(func() {
		const period = time.Millisecond
		timer := time.NewTimer(period)
		defer timer.Stop()
		for {
			due := time.Now().Add(period)
			timer.Reset(period)
			select {
			case <-timer.C:
				h.late = append(h.late, time.Since(due))
			case <-h.stop:
				if late := time.Since(due); late > 0 { // both were ready, after a long hiccup
					h.late = append(h.late, late)
				}
				return
			}
		}
	})
	return h
}

// end stops watching and returns what was seen.
func (h *hiccups) end() times {
	close(h.stop)
	h.done.Wait()
	return h.late
}

// An outcome is what came of a call that may block.
type outcome struct {
	took  time.Duration
	err   error
	still bool // it had not returned when we stopped looking
}

// patience waits for call to return, limit at most. It goes on in the background after that, and has to
// end before what it uses is closed.
func patience(t testing.TB, limit time.Duration, call func() error) outcome {
	began := time.Now()
	over := make(chan outcome, 1)
	go func() {
		err := call()
		over <- outcome{took: time.Since(began), err: err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case o := <-over:
		return o
	case <-timer.C:
		t.Cleanup(func() { <-over })
		return outcome{took: time.Since(began), still: true}
	}
}

func (o outcome) String() string {
	if o.still {
		return fmt.Sprintf("still blocked after %.1f s", o.took.Seconds())
	}
	return ms(o.took)
}
