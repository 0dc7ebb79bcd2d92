// Package holds is the faults that meet a hold: its process is paused or killed, its key goes away,
// its servers can't be reached, its messages are lost; and the histories that come of all that. The
// servers are real, and where a process is paused or killed, so are the processes.
package holds

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// Rows returns the rows of this package.
func Rows() []evidence.Row {
	return []evidence.Row{paused(), deleted(), cutOff(), killed(), flapping(), histories()}
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
