package servers

import (
	"fmt"
	"testing"
	"time"

	"github.com/redimutex/redimutex/internal/redistest"
)

// ms writes a time in the unit of the table.
func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }

// watchHiccups measures how late this machine wakes a goroutine up that does nothing but look at the clock.
func watchHiccups() *redistest.Lateness { return redistest.MeasureLatenessBy(time.Millisecond) }

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
