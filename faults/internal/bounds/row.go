// Package bounds holds every verb to its bound, over every kind of pool and in every way in which a server
// can hang. The calls, the pools and the ways are those of the tests, in internal/redistest/bounds.
package bounds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	calls "github.com/redimutex/redimutex/internal/redistest/bounds"
)

// Rows returns what this package has for the table.
func Rows() []evidence.Row {
	return []evidence.Row{{
		ID: 22, Name: "bounds",
		Fault: "every verb, over every kind of pool, while the server hangs in every way",
		Must:  "no call outlasts its bound by 50 ms, the machine's own lateness apart",
		Short: 12 * time.Second, Long: 7 * time.Minute,
		Run: run,
	}}
}

const (
	limit = 50 * time.Millisecond
	// A call that is under way for so long after its bound is waited for no longer, and the server goes on.
	patience      = time.Second
	shortPatience = 5 * time.Second // where no times are judged: such a call would last as long as the server hangs
	together      = 3               // kinds of pools at once, where no times are judged
)

// A wave is what is called at once: all verbs over some kinds of pools.
type wave struct {
	way   calls.Way
	kinds []calls.Kind
}

// plan returns all waves in an order drawn from seed in which every way comes soon. Each has so many kinds of pools.
func plan(seed uint64, width int) []wave {
	random := rand.New(rand.NewPCG(seed, 22))
	var all []wave
	queues := make(map[string][]wave)
	ways := calls.Ways()
	random.Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
	for _, w := range ways {
		var kinds []calls.Kind
		for _, k := range calls.Kinds() {
			if w.Concerns(k) {
				kinds = append(kinds, k)
			}
		}
		random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		for len(kinds) > 0 {
			n := min(width, len(kinds))
			queues[w.Name] = append(queues[w.Name], wave{w, kinds[:n]})
			kinds = kinds[n:]
		}
	}
	for left := true; left; {
		left = false
		for _, w := range ways {
			if q := queues[w.Name]; len(q) > 0 {
				all, queues[w.Name], left = append(all, q[0]), q[1:], true
			}
		}
	}
	return all
}

// run plays the waves until the time is over; all of them once where there is time for that.
func run(ctx context.Context, s evidence.Setup) (evidence.Result, error) {
	began := time.Now()
	width, wait := together, shortPatience
	if s.Long {
		width, wait = 1, patience
	}
	seen := newTally(s.Long)
	err := evidence.Stage(ctx, func(t testing.TB) {
		benches := make(map[string]*calls.Bench)
		for round := uint64(0); ctx.Err() == nil; round++ {
			waves := plan(s.Seed+round, width)
			for i, w := range waves {
				if time.Since(began) > s.Time || ctx.Err() != nil || t.Failed() {
					break
				}
				if s.Report != nil {
					s.Report(int(time.Since(began)/time.Millisecond), int(s.Time/time.Millisecond))
				}
				if benches[w.way.Name] == nil {
					benches[w.way.Name] = calls.New(t, w.way)
				}
				cells := benches[w.way.Name].Cells(w.kinds...)
				late := benches[w.way.Name].Run(cells, wait)
				seen.add(w.way, cells, late)
				if round == 0 {
					seen.played, seen.waves = i+1, len(waves)
				}
			}
			if !s.Long || time.Since(began) > s.Time || t.Failed() {
				break
			}
		}
		for name, b := range benches {
			if b.Met() == 0 {
				t.Errorf("no try has failed while the server hung (%s), so nothing was shown", name)
			}
		}
	})
	if err != nil {
		return evidence.Result{}, fmt.Errorf("after %d of %d: %w", seen.played, seen.waves, err)
	}
	return seen.result(s.Seed), ctx.Err()
}
