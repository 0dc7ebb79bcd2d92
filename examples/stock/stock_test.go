//go:build unix

package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/examples/internal/crew"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) {
	if crew.Hired() {
		os.Exit(crew.Work(work))
	}
	os.Exit(m.Run())
}

// small is a sale that is over soon.
var small = plan{
	items: 40, buyers: 300, processes: 4, tills: 3,
	mishaps: []mishap{{30, killed}, {20, paused}},
}

func TestOnlyWhatTheDatabaseComparesKeepsItFromOverselling(t *testing.T) {
	s := redistest.Start(t)
	for _, d := range defences {
		name := fmt.Sprintf("lock %s, fence %s, version %s, stock %s", mark(d.lock), mark(d.fence), mark(d.version), mark(d.stock))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := small.hold(t.Context(), d, s.URL())
			require.NoError(t, err)
			t.Logf("%d orders, %v", r.orders, r.counts)
			assert.Equal(t, 1, r.counts[killed])
			assert.Equal(t, 1, r.counts[paused])
			if d.safe() {
				assert.Zero(t, r.oversold)
				assert.Equal(t, small.items, r.orders)
			} else {
				assert.Positive(t, r.oversold)
			}
			if d.fence || d.version {
				assert.Positive(t, r.counts[refused], "who was paused has to be refused when it writes")
			}
		})
	}
}

// Two sellers are paused. The first wakes while the second, which has read the same stock, has not written yet.
func TestAPausedSellerThatWakesBeforeItsSuccessorHasWrittenOversellsNothing(t *testing.T) {
	s := redistest.Start(t)
	two := plan{items: 2, buyers: 20, processes: 2, tills: 2, mishaps: []mishap{{1, paused}, {1, paused}}}
	for _, d := range defences {
		if !d.lock || !d.safe() {
			continue
		}
		t.Run(fmt.Sprintf("fence %s, version %s, stock %s", mark(d.fence), mark(d.version), mark(d.stock)), func(t *testing.T) {
			t.Parallel()
			r, err := two.hold(t.Context(), d, s.URL())
			require.NoError(t, err)
			assert.Equal(t, 2, r.counts[paused])
			assert.Zero(t, r.oversold)
			assert.Equal(t, two.items, r.orders)
		})
	}
}
