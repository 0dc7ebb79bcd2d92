package redistest

import (
	"slices"
	"sync"
	"time"
)

// A Lateness measures how late this machine, and this process, wake a goroutine that slept for a moment. A test that measures
// times measures this beside them: they can't be more punctual.
type Lateness struct {
	moment time.Duration
	stop   chan struct{}
	over   sync.WaitGroup

	mu   sync.Mutex
	naps []nap
	due  time.Time // when the nap under way should end
}

// A nap is one such sleep.
type nap struct{ due, woken time.Time }

func (n nap) late() time.Duration { return n.woken.Sub(n.due) }

// MeasureLateness measures until Stop or Naps.
func MeasureLateness() *Lateness { return MeasureLatenessBy(2 * time.Millisecond) }

// MeasureLatenessBy is MeasureLateness with moments of another length.
func MeasureLatenessBy(moment time.Duration) *Lateness {
	l := &Lateness{moment: moment, stop: make(chan struct{})}
	l.over.Go(func() {
		for {
			select {
			case <-l.stop:
				return
			default:
			}
			n := nap{due: time.Now().Add(moment)}
			l.mu.Lock()
			l.due = n.due
			l.mu.Unlock()
			time.Sleep(moment)
			n.woken = time.Now()
			l.mu.Lock()
			l.naps, l.due = append(l.naps, n), time.Time{}
			l.mu.Unlock()
		}
	})
	return l
}

// Stop returns the sum of the latenesses, without those of less than a millisecond.
func (l *Lateness) Stop() (sum time.Duration) {
	for _, late := range l.Naps() {
		if late > time.Millisecond {
			sum += late
		}
	}
	return sum
}

// Naps stops measuring and returns how late each nap ended.
func (l *Lateness) Naps() []time.Duration {
	close(l.stop)
	l.over.Wait()
	all := make([]time.Duration, len(l.naps))
	for i, n := range l.naps {
		all[i] = n.late()
	}
	return all
}

// Worst returns the largest lateness between two times, but at least half a moment.
func (l *Lateness) Worst(from, to time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	worst := l.moment / 2
	if !l.due.IsZero() {
		worst = max(worst, to.Sub(l.due)) // it has not woken yet
	}
	first, _ := slices.BinarySearchFunc(l.naps, from, func(n nap, at time.Time) int { return n.woken.Compare(at) })
	for _, n := range l.naps[first:] {
		if n.due.After(to) {
			break
		}
		worst = max(worst, n.late())
	}
	return worst
}
