package planned

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func needServers(t *testing.T) {
	t.Helper()
	if !redistest.Installed() {
		t.Skip("needs a real redis-server or valkey-server on the PATH: miniredis has no replicas")
	}
}

func TestNoTwoLeasesAreValidAtOnceAndNoFenceFallsInPlannedFailovers(t *testing.T) {
	needServers(t)
	row := Rows()[0]
	r, err := row.Run(t.Context(), evidence.Setup{Seed: 1, Time: row.Short, Dir: t.TempDir()})
	require.NoError(t, err)
	for _, n := range r.Notes {
		t.Log(n)
	}
	for _, f := range r.Figures {
		t.Log(f)
		assert.True(t, f.OK(), f.String())
	}
	assert.True(t, r.OK())
}

// Where the new primary has none of the locks, a process gets one that another holds. If not at once, then at the next failover.
func TestAFailoverThatForgetsLocksIsFound(t *testing.T) {
	needServers(t)
	forgetful := plan{"FAILOVER TO", true, func(t testing.TB) *site {
		return byHand(t, func(from, to *redistest.Server) {
			from.FailoverTo(to)
			to.Do("FLUSHALL")
		})
	}}
	var all []*scene
	require.NoError(t, evidence.Stage(t.Context(), func(t testing.TB) {
		site := forgetful.build(t)
		c := &contest{key: "{k}:0", pool: site.pools[0].name, way: ways()[0], work: 2 * time.Second}
		sc := &scene{plan: forgetful, contests: []*contest{c}, failovers: 1}
		all = append(all, sc)
		stop := c.start(t.Context(), t, site.pools[0].make)
		t.Cleanup(stop)
		for i := 0; i < 30 && result(all, 1).OK(); i++ {
			more(t.Context(), t, sc.contests, 1) // and now a process holds it for a while
			site.failover(t)
		}
		stop()
	}))
	assert.False(t, result(all, 1).OK())
}

// One overlap, or one fence that fell, is enough where it is judged, and none elsewhere.
func TestOneOverlapOrFallenFenceIsFound(t *testing.T) {
	outcome := func(plan plan, replicas, clashes, falls int) bool {
		c := &contest{replicas: replicas, holds: 1000, way: ways()[1], clashes: clashes, falls: falls}
		good := scene{plan: plan, replicas: 1, failovers: 1}
		for n := range 2 {
			good.contests = append(good.contests, &contest{replicas: n, holds: 1000, way: ways()[0]})
		}
		bad := scene{plan: plan, replicas: 1, contests: []*contest{c}, failovers: 1}
		return result([]*scene{&good, &bad}, 1).OK()
	}
	inStep, byHand := plans()[0], plans()[1]
	assert.True(t, outcome(inStep, 0, 0, 0))
	assert.False(t, outcome(inStep, 0, 1, 0))
	assert.False(t, outcome(inStep, 1, 0, 1))
	assert.True(t, outcome(byHand, 0, 1, 1), "nobody promises anything")
	assert.False(t, outcome(byHand, 1, 1, 0))
	assert.False(t, outcome(byHand, 1, 0, 1))
}
