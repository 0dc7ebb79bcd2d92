package evidence

import (
	"fmt"
	"time"

	"github.com/redimutex/redimutex/internal/lab/stats"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Noise measures how late this machine's timers are, whatever the locks do. What a row measures can't be more punctual.
type Noise struct{ *redistest.Lateness }

// NoiseStep is how long each nap of a Noise lasts.
const NoiseStep = time.Millisecond

// Noise measures until the row ends.
func (s *Scene) Noise() Noise {
	n := Noise{redistest.MeasureLatenessBy(NoiseStep)}
	s.Cleanup(func() { n.Stop() })
	return n
}

// Between returns by how much a timer was late at most between two instants.
func (n Noise) Between(from, to Instant) time.Duration { return n.Worst(from.Time(), to.Time()) }

// A Sample is something that took a while.
type Sample struct {
	Took  time.Duration
	Noise time.Duration // how late timers were meanwhile
}

// Punctual is how late timers may be on a machine that has little else to do.
const Punctual = 2 * time.Millisecond

// A Bound is a limit for samples.
type Bound struct {
	Limit   time.Duration
	Words   string        // the limit in words
	Strict  bool          // Allows adds the noise to the limit, once for each of Steps; otherwise it adds Slack
	Steps   int           // how often a busy machine can delay what is measured
	Share   float64       // the share of the samples that must keep to it: 1, or 0.99
	Slack   time.Duration // for a machine whose load is not known
	Unheard int           // tries that ended without a sample, and never held
}

// Allows reports whether a sample keeps to the bound.
func (b Bound) Allows(s Sample) bool {
	if b.Strict {
		return s.Took <= b.Limit+time.Duration(b.Steps)*s.Noise
	}
	return s.Took <= b.Limit+b.Slack
}

// Figure judges samples.
func (b Bound) Figure(library string, samples []Sample) Figure {
	f := Figure{Library: library, Tried: b.Unheard}
	if len(samples) == 0 {
		f.Worst = "nothing was measured"
		return f
	}
	var took, noises, calm stats.Times
	for _, s := range samples {
		f.Count(b.Allows(s))
		took, noises = append(took, s.Took), append(noises, s.Noise)
		if s.Noise <= Punctual {
			calm = append(calm, s.Took)
		}
	}
	if b.Unheard == 0 && float64(f.Held) >= b.Share*float64(f.Tried) {
		f.Held = f.Tried
	}
	f.Worst = fmt.Sprintf("p99 %v, most %v; limit %s = %v; timers ≤ %v late",
		Millis(took.Quantile(.99)), Millis(took.Worst()), b.Words, Millis(b.Limit), Millis(noises.Worst()))
	if n := len(calm); n > 0 && n < len(took) {
		f.Worst += fmt.Sprintf("; in %d of %d with ≤ %v: p99 %v, most %v",
			n, len(took), Punctual, Millis(calm.Quantile(.99)), Millis(calm.Worst()))
	}
	return f
}

// Millis rounds for people.
func Millis(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
