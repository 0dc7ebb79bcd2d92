// Package holds is the faults that meet a hold: its process is paused or killed, its key goes away,
// its servers can't be reached, its messages are lost; and the histories that come of all that. The
// servers are real, and where a process is paused or killed, so are the processes.
package holds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Rows returns the rows of this package.
func Rows() []evidence.Row {
	return []evidence.Row{paused(), deleted(), cutOff(), killed(), flapping(), histories()}
}

// A scenario plays a row.
type scenario func(t testing.TB, row evidence.Row, s evidence.Setup) (evidence.Result, error)

// staged is the row with a scenario that is played on a stage.
func staged(row evidence.Row, play scenario) evidence.Row {
	row.Run = func(ctx context.Context, s evidence.Setup) (r evidence.Result, err error) {
		failed := evidence.Stage(ctx, func(t testing.TB) { r, err = play(t, row, s) })
		return r, errors.Join(failed, err)
	}
	return row
}

// sideBySide plays a part of a row for each kit, all at the same time, and puts their figures together. One that
// fails ends the others. The first reports how far it is.
func sideBySide[K any](t testing.TB, row evidence.Row, s evidence.Setup, kits []K, short, long int,
	play func(i int, k K, q *quota) ([]evidence.Figure, error),
) ([]evidence.Figure, error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	figures, errs := make([][]evidence.Figure, len(kits)), make([]error, len(kits))
	var group sync.WaitGroup
	for i, k := range kits {
		quiet := s
		if i > 0 {
			quiet.Report = nil
		}
		q := newQuota(ctx, quiet, row, short, long)
		group.Go(func() {
			if figures[i], errs[i] = play(i, k, q); errs[i] != nil {
				cancel()
			}
		})
	}
	group.Wait()
	return slices.Concat(figures...), errors.Join(errs...)
}

// addrs starts n real servers, and returns their addresses.
func addrs(t testing.TB, n int) (all []string) {
	for range n {
		all = append(all, redistest.Real(t).Addr())
	}
	return all
}

// tally says how often what happened.
func tally(struck map[string]int) string {
	var words []string
	for _, what := range slices.Sorted(maps.Keys(struck)) {
		words = append(words, fmt.Sprintf("%d times %s", struck[what], what))
	}
	return strings.Join(words, ", ")
}

// A quota says how often something is repeated. The long version goes on until it has both the
// repetitions and the time; the short one ends with either.
type quota struct {
	ctx   context.Context
	setup evidence.Setup
	want  int
	done  int
	end   time.Time
}

func newQuota(ctx context.Context, s evidence.Setup, row evidence.Row, short, long int) *quota {
	q := &quota{ctx: ctx, setup: s, want: short}
	d := row.Short
	if s.Long {
		q.want, d = long, row.Long
	}
	if s.Time > 0 {
		d = s.Time
	}
	q.end = time.Now().Add(d)
	return q
}

// more reports whether to go on.
func (q *quota) more() bool {
	if q.setup.Report != nil {
		q.setup.Report(min(q.done, q.want), q.want)
	}
	early := time.Now().Before(q.end)
	switch {
	case q.ctx.Err() != nil:
		return false
	case q.setup.Long:
		return q.done < q.want || early
	}
	return q.done == 0 || q.done < q.want && early
}

// random returns the source of chance for a part of a row, so that parts which run side by side do
// not depend on each other.
func random(s evidence.Setup, part int) *rand.Rand {
	return rand.New(rand.NewPCG(s.Seed, uint64(part)))
}

// between returns a random duration.
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low+1)))
}

// pause waits for d, or for less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
