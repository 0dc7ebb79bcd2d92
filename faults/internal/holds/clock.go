package holds

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/stats"
	"github.com/redimutex/redimutex/internal/redistest"
)

// An instant is a time in ns on the monotonic clock that all processes of a machine share.
type instant int64

func now() instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every kernel that Go runs on has that clock
	}
	return instant(ts.Nano())
}

// origin is one moment on both clocks, of which the one that Go has counts the same nanoseconds.
var origin = func() (o struct {
	instant instant
	time    time.Time
},
) {
	apart := time.Hour
	for range 100 { // the two are taken one after the other, and something may come between
		i := now()
		t := time.Now()
		if d := now().sub(i); d < apart {
			o.instant, o.time, apart = i, t, d
		}
	}
	return o
}()

// instantOf converts t. What it gets wrong, by less than a microsecond, is too early, so no caller is blamed for
// more than was promised.
func instantOf(t time.Time) instant { return origin.instant.add(t.Sub(origin.time)) }

func (i instant) time() time.Time                 { return origin.time.Add(i.sub(origin.instant)) }
func (i instant) add(d time.Duration) instant     { return i + instant(d) }
func (i instant) sub(other instant) time.Duration { return time.Duration(i - other) }

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
func (n noise) worst(from, to instant) time.Duration { return n.Worst(from.time(), to.time()) }

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
func (b bound) figure(library string, samples []sample) evidence.Figure {
	f := evidence.Figure{Library: library, Tried: len(samples) + b.unheard}
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
