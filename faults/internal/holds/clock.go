package holds

import (
	"fmt"
	"time"

	"github.com/redimutex/redimutex/internal/lab/stats"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Noise is how late this machine's timers are, apart from anything that we do with locks. What a
// row measures can't be more punctual than that.
type noise struct{ *redistest.Lateness }

const noiseStep = time.Millisecond

// steps is how often a busy machine can hold up what is measured: the timer or the reply that it
// depends on, and the goroutine that takes the time.
const steps = 2

// noiseNote says how the limits are judged.
const noiseNote = "The limits of the rows 5, 6, 15 and 16 are judged by the long version alone. So that it judges the library and not the machine, a goroutine that does nothing but set a " +
	"timer notes how late it is woken, and twice the worst of that during a measurement is allowed on top of the limit of that measurement."

func listen() noise { return noise{redistest.MeasureLatenessBy(noiseStep)} }

func (n noise) close() { n.Stop() }

// worst returns by how much a timer was late at most between two instants.
func (n noise) worst(from, to instant) time.Duration { return n.Worst(from.Time(), to.Time()) }

// A sample is something that took a while.
type sample struct {
	took  time.Duration
	noise time.Duration // how late timers were meanwhile
}

// A bound is what samples are held against.
type bound struct {
	limit   time.Duration
	words   string        // the limit in words
	strict  bool          // the limit is judged, with the noise added to it, for each step; else only slack is
	share   float64       // of the samples that have to keep to it: 1, or 0.99
	slack   time.Duration // for a machine of which nothing is known
	unheard int           // tries that ended without a sample, and never held
}

// figure judges samples.
func (b bound) figure(library string, samples []sample) figure {
	f := figure{Library: library, Tried: len(samples) + b.unheard}
	if len(samples) == 0 {
		f.Worst = "nothing was measured"
		return f
	}
	var took, noises, calm stats.Times
	for _, s := range samples {
		allowed := b.limit + steps*s.noise
		if !b.strict {
			allowed = b.limit + b.slack
		}
		if s.took <= allowed {
			f.Held++
		}
		took, noises = append(took, s.took), append(noises, s.noise)
		if s.noise <= punctual {
			calm = append(calm, s.took)
		}
	}
	if b.unheard == 0 && float64(f.Held) >= b.share*float64(f.Tried) {
		f.Held = f.Tried
	}
	f.Worst = fmt.Sprintf("p99 %v, most %v; limit %s = %v; timers ≤ %v late",
		ms(took.Quantile(.99)), ms(took.Quantile(1)), b.words, ms(b.limit), ms(noises.Quantile(1)))
	if n := len(calm); n > 0 && n < len(took) {
		f.Worst += fmt.Sprintf("; in %d of %d with ≤ %v: p99 %v, most %v",
			n, len(took), punctual, ms(calm.Quantile(.99)), ms(calm.Quantile(1)))
	}
	return f
}

// punctual is how late timers may be on a machine that has little else to do.
const punctual = 2 * time.Millisecond

// ms rounds for people.
func ms(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
