package planned

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/faults/internal/load"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestNoTwoLeasesAreValidAtOnceAndNoFenceFallsInPlannedFailovers(t *testing.T) {
	Rows()[0].Hold(t, 0)
}

// If the new primary has none of the locks, a process gets a lock that another process holds: if not at once, then after one
// of the next failovers.
func TestAFailoverThatForgetsLocksIsFound(t *testing.T) {
	redistest.Differs(t, "has no replicas")
	var y tally
	_, err := evidence.Played(Rows()[0], func(s *evidence.Scene) {
		site := byHand(s, func(from, to *redistest.Server) {
			from.FailoverTo(to)
			to.Do("FLUSHALL")
		})
		c := &contest{prefix: "{k}:0", pool: site.pools[0], way: ways()[1], work: 2 * time.Second}
		stop := c.start(s, s.Random(0))
		for i := 0; i < 30 && c.Sums().Clashes == 0; i++ {
			more(s, []*contest{c}, 1) // now a process holds the lock for a while
			site.failover(s)
		}
		stop()
		y.Add(c.Sums())
	}).Run(t.Context(), evidence.Setup{})
	require.NoError(t, err)
	assert.False(t, plans()[0].figure(0, 1, y).OK())
}

// One overlap, or one fallen fence, makes a judged figure fail, and no other figure.
func TestOneOverlapOrFallenFenceIsFound(t *testing.T) {
	outcome := func(p plan, n, clashes, falls int) bool {
		return p.figure(n, 1, tally{Sums: load.Sums{Holds: 1000, Clashes: clashes, Falls: falls}}).OK()
	}
	inStep, byHand := plans()[0], plans()[1]
	assert.True(t, outcome(inStep, 0, 0, 0))
	assert.False(t, outcome(inStep, 0, 1, 0))
	assert.False(t, outcome(inStep, 1, 0, 1))
	assert.True(t, outcome(byHand, 0, 1, 1), "nothing is promised")
	assert.False(t, outcome(byHand, 1, 1, 0))
	assert.False(t, outcome(byHand, 1, 0, 1))
}
