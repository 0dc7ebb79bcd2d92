// Package planned has primaries hand over as planned, while many take locks: whether two leases are ever valid at once, and
// whether fences fall.
package planned

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// Rows returns what this package has for the table.
func Rows() []evidence.Row {
	return []evidence.Row{{
		ID: 27, Name: "planned",
		Fault: "planned failovers: FAILOVER TO, REPLICAOF by hand, SENTINEL FAILOVER, CLUSTER FAILOVER",
		Must:  "no overlap and no falling fence, where the replica is waited for, or all replicas confirm",
		Short: 15 * time.Second, Long: 6 * time.Minute,
		Run: run,
	}}
}

const calm = 10 // holds of each contest before the first failover, and after each

// A scene is some failovers while contests go on.
type scene struct {
	plan      plan
	replicas  int // how many a primary has
	contests  []*contest
	failovers int
}

// draw returns contests over every kind of pool, with every number of replicas that may confirm.
func (s *site) draw(random *rand.Rand, each int) (contests []*contest) {
	all := ways()
	for replicas := range s.replicas + 1 {
		for _, pool := range s.pools {
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for _, w := range all[:each] {
				key := fmt.Sprintf(keyFormat, len(contests))
				contests = append(contests, &contest{key: key, pool: pool.name, way: w, replicas: replicas, work: time.Millisecond})
			}
		}
	}
	return contests
}

// play lets contests go on over a few failovers of a site. There are so many contests over each kind of pool.
func (p plan) play(ctx context.Context, t testing.TB, s *site, random *rand.Rand, each, failovers int) *scene {
	sc := &scene{plan: p, replicas: s.replicas, contests: s.draw(random, each), failovers: failovers}
	for _, c := range sc.contests {
		for _, k := range s.pools {
			if k.name == c.pool {
				stop := c.start(ctx, t, k.make)
				t.Cleanup(stop) // if something fails
				defer stop()
			}
		}
	}
	more(ctx, t, sc.contests, calm)
	for range failovers {
		if ctx.Err() != nil {
			break
		}
		s.failover(t)
		more(ctx, t, sc.contests, calm)
	}
	return sc
}

func run(ctx context.Context, s evidence.Setup) (evidence.Result, error) {
	var (
		mu     sync.Mutex
		scenes []*scene
		done   int
	)
	all := plans()
	// on plays one plan, on servers that it starts, until the time is over.
	on := func(i int, p plan, d time.Duration) error {
		random := rand.New(rand.NewPCG(s.Seed, uint64(i)))
		return evidence.Stage(ctx, func(t testing.TB) {
			site := p.build(t)
			each, failovers := 1, 1
			if s.Long {
				each, failovers = 2, 3
			}
			for began := time.Now(); ; {
				sc := p.play(ctx, t, site, random, each, failovers)
				mu.Lock()
				scenes = append(scenes, sc)
				mu.Unlock()
				if !s.Long || time.Since(began) > d || ctx.Err() != nil {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			if s.Report != nil {
				s.Report(done, len(all))
			}
		})
	}
	errs := make([]error, len(all))
	if s.Long {
		for i, p := range all {
			if errs[i] = on(i, p, s.Time/time.Duration(len(all))); errs[i] != nil {
				break
			}
		}
	} else {
		var team sync.WaitGroup
		for i, p := range all {
			team.Go(func() { errs[i] = on(i, p, 0) }) // they mostly wait
		}
		team.Wait()
	}
	if err := errors.Join(errs...); err != nil {
		return evidence.Result{}, err
	}
	return result(scenes, s.Seed), ctx.Err()
}
