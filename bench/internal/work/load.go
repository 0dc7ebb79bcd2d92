package work

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/bench/internal/entrants"
	"github.com/redimutex/redimutex/internal/lab/stats"
)

// The phases of a load.
const (
	warming = iota
	measuring
	over
)

// usual is the heap that a typical program has besides its locks. Without it the garbage collector would run forty times a
// second. A goroutine that must help the collector stands still, and another one gets the lock again and again meanwhile.
const usual = 64 << 20

// A load runs goroutines that lock and unlock.
type load struct {
	*runner
	phase atomic.Int32
	ended time.Time // the end of the measurement; set before phase is over, read after that
}

// load runs the goroutines, and adds up what they counted.
func (r *runner) load() (Result, error) {
	heap := make([]byte, usual)
	defer runtime.KeepAlive(heap)
	l := &load{runner: r}
	results := make([]Result, r.Goroutines)
	var group sync.WaitGroup
	for g := range results {
		group.Go(func() { results[g] = l.goroutine(g) })
	}
	time.Sleep(r.Warm)
	from := r.mark(false)
	l.phase.Store(measuring)
	time.Sleep(r.Run)
	to := r.mark(false)
	l.ended = to.at
	l.phase.Store(over)
	r.cancel()
	group.Wait()

	result := between(from, to)
	for g := range results {
		result.Add(&results[g])
	}
	return result, nil
}

// writes reports whether goroutine g of this process is a writer.
func (j *Job) writes(g int) bool { return g < j.Writers }

// pair returns what goroutine g of this process locks with.
func (r *runner) pair(g int) entrants.Pair {
	key := r.Key
	if r.Own {
		key += ":" + strconv.Itoa(r.Worker) + ":" + strconv.Itoa(g)
	}
	return r.locker.Pair(key, r.writes(g))
}

// goroutine locks and unlocks until the end.
func (l *load) goroutine(g int) (t Result) {
	pair, number := l.pair(g), l.Worker*l.Goroutines+g // number counts the goroutines of all processes
	t.Holds, t.Waits, t.Pairs = make([]int64, 1), make(stats.Histogram), make(stats.Histogram)
	every := max(l.Every, 1)
	for i := 0; l.phase.Load() != over; i++ {
		timed := i%every == 0
		var asked, got time.Time
		if timed {
			asked = time.Now()
		}
		err := pair.Lock(l.ctx)
		if err != nil && l.ctx.Err() == nil {
			t.fail(l.ctx, err)
			continue
		}
		if timed {
			got = time.Now()
		}
		phase := l.phase.Load()
		if phase == over {
			if rest := l.ended.Sub(asked); timed && rest > 0 {
				t.Waits.Add(rest) // without this wait, which had not ended, libraries whose waiters starve would look better
			}
			if err == nil { // the lock was won just now, or Lock can't be cancelled
				pair.Unlock(context.Background()) //nolint:errcheck // the counting has ended
			}
			break
		}
		held := time.Duration(0)
		if l.Hold > 0 {
			time.Sleep(l.Hold)
			held = time.Since(got) // longer than l.Hold, because sleeps end late
		}
		if phase == measuring {
			t.Holds[0]++
			t.Held += held
			if timed {
				t.Waits.Add(got.Sub(asked))
			}
			if l.Spans {
				t.Spans = append(t.Spans, Span{Goroutine: number, Asked: asked.UnixNano(), Got: got.UnixNano(), Released: time.Now().UnixNano()})
			}
		}
		if err := pair.Unlock(context.Background()); err != nil && l.phase.Load() != over {
			t.fail(l.ctx, err)
		}
		if phase == measuring && l.Own && timed {
			t.Pairs.Add(time.Since(asked))
		}
		if l.Think > 0 {
			time.Sleep(l.Think)
		}
	}
	if l.writes(g) {
		t.Writers, t.Waits = t.Waits, nil
	}
	return t
}

// fail counts a failed call, and waits a moment before the next call.
func (t *Result) fail(ctx context.Context, err error) {
	t.Failures++
	t.Failure = err.Error()
	select {
	case <-time.After(time.Millisecond):
	case <-ctx.Done():
	}
}
