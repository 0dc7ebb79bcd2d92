// Package planned makes primaries hand over as planned while many clients take locks. It finds out whether two leases are ever
// valid at once, and whether fences fall.
package planned

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/faults/internal/load"
	"github.com/redimutex/redimutex/internal/lab/peers"
)

// Rows returns what this package has for the table.
func Rows() []evidence.Row {
	return []evidence.Row{evidence.Played(evidence.Row{
		ID: 27, Name: "planned",
		Fault: "planned failovers: FAILOVER TO, REPLICAOF by hand, SENTINEL FAILOVER, CLUSTER FAILOVER",
		Must:  "no overlap and no falling fence, where the replica is waited for, or all replicas confirm",
		Short: 15 * time.Second, Long: 6 * time.Minute,
	}, play)}
}

const (
	ttl      = 2 * time.Second
	confirm  = 500 * time.Millisecond // the timeout of WithReplicas
	rivals   = 3
	thinking = 20 * time.Millisecond // before a rival comes again
	patience = 2 * time.Minute       // for a busy machine
	calm     = 10                    // holds of each contest before the first failover, and after each
)

// A way is how locks are used. Without options, all kinds of locks are used.
type way struct {
	name string
	opts []redimutex.Option
}

func ways() []way {
	queue, fencing, reusing := redimutex.WithQueue(), redimutex.WithFencing(), redimutex.WithLeaseReuse(ttl/4)
	return []way{
		{"all kinds", nil},
		{"queue", []redimutex.Option{queue}},
		{"fences", []redimutex.Option{fencing}},
		{"queue, fences", []redimutex.Option{queue, fencing}},
		{"queue, reuse", []redimutex.Option{queue, reusing}},
	}
}

// A contest has rivals that take locks again and again over pools of one kind. Each rival has a Client of its own, like a
// process of its own.
type contest struct {
	load.Ledger
	prefix   string // of its keys
	pool     kind
	way      way
	replicas int           // how many replicas have to confirm
	work     time.Duration // how long a rival keeps the lock, so that others have a chance to clash with it
}

// start lets the rivals compete until stop is called.
func (c *contest) start(s *evidence.Scene, random *rand.Rand) (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var team sync.WaitGroup
	opts := append([]redimutex.Option{redimutex.WithTTL(ttl), redimutex.WithLogger(peers.Quiet)}, c.way.opts...)
	if c.replicas > 0 {
		opts = append(opts, redimutex.WithReplicas(c.replicas, confirm))
	}
	for range rivals {
		client := redimutex.NewClient([]redimutex.Pool{c.pool.make(s)}, opts...)
		s.Cleanup(func() { client.Close() })
		if c.way.opts == nil {
			k := load.NewKinds(&c.Ledger, client, c.prefix, rand.New(rand.NewPCG(random.Uint64(), 0)), c.work)
			team.Go(func() { k.Run(ctx, func(error) {}) }) // errors don't count: a hand-over that failed may stand in the way
			continue
		}
		m := client.Mutex(c.prefix)
		team.Go(func() {
			for ctx.Err() == nil {
				h, err := c.Acquire(ctx, m)
				switch {
				case err == nil:
					evidence.Sleep(ctx, c.work)
					c.Release(h)
				case ctx.Err() == nil:
					s.Errorf("%s, over the pool %s: %v", c.way.name, c.pool.name, err)
				}
				evidence.Sleep(ctx, thinking)
			}
		})
	}
	return sync.OnceFunc(func() {
		cancel()
		team.Wait()
	})
}

// more waits until each of the contests has had n more holds.
func more(s *evidence.Scene, contests []*contest, n int) {
	targets := make([]int, len(contests)) // set for all at once, so that a slow contest costs the others no time
	for i, c := range contests {
		targets[i] = c.Sums().Holds + n
	}
	end := time.Now().Add(patience)
	for i, c := range contests {
		for c.Sums().Holds < targets[i] && s.Context().Err() == nil && !s.Failed() {
			if time.Now().After(end) {
				s.Fatalf("%s, over the pool %s: no process gets the lock any more", c.way.name, c.pool.name)
			}
			evidence.Sleep(s.Context(), time.Millisecond)
		}
	}
}

// A tally is what the contests with one number of confirming replicas have shown.
type tally struct {
	load.Sums
	failovers int
}

// play plays the plans side by side or, in the long version, one after the other.
func play(s *evidence.Scene) {
	all := plans()
	tallies := make([][]tally, len(all))
	s.Parts(len(all), func(i int) error {
		tallies[i] = all[i].play(s, s.Random(i), s.Time/time.Duration(len(all)))
		return nil
	})
	for i, p := range all {
		for n, y := range tallies[i] {
			s.Figure(p.figure(n, len(tallies[i])-1, y))
		}
	}
	s.Note("FAILOVER and CLUSTER FAILOVER hold writes back until the replica has all of them. REPLICAOF by hand and SENTINEL FAILOVER don't: " +
		"what the old primary grants in the last moment is forgotten, unless every replica has to confirm it. " +
		"Where a primary has two replicas, and one is promoted, the other may go on confirming to the old primary; so one of two is not enough.")
	s.Note("%d rivals for each lock, with a TTL of %v; all servers have one clock. In turn they use all kinds of locks, and Mutexes with queue, reuse and fences.", rivals, ttl)
}

// play runs contests over every kind of pool, with every number of replicas that may confirm, while there are failovers. The
// short version is one round, and the long one goes on until the time is over.
func (p plan) play(s *evidence.Scene, random *rand.Rand, d time.Duration) []tally {
	site := p.build(s)
	tallies := make([]tally, site.replicas+1)
	failovers := 1
	if s.Long {
		failovers = 3
	}
	for began, round := time.Now(), 0; round == 0 || s.Long && time.Since(began) < d && s.Context().Err() == nil; round++ {
		var contests []*contest
		var stops []func()
		for replicas := range tallies {
			for i, pool := range site.pools {
				w := ways()[(round+i+replicas)%len(ways())]
				c := &contest{prefix: fmt.Sprintf("{k}:%d", len(contests)), pool: pool, way: w, replicas: replicas, work: time.Millisecond} // in one slot
				stop := c.start(s, random)
				s.Cleanup(stop) // also if something fails
				contests, stops = append(contests, c), append(stops, stop)
			}
		}
		more(s, contests, calm)
		for range failovers {
			site.failover(s)
			more(s, contests, calm)
		}
		for i, c := range contests {
			stops[i]()
			tallies[c.replicas].Add(c.Sums())
			tallies[c.replicas].failovers += failovers
		}
	}
	return tallies
}

// figure returns the figure for n confirming replicas, where the primary has of replicas. It is judged only if nothing may be
// forgotten: the primary waits for its replica, or every replica has confirmed the lock.
func (p plan) figure(n, of int, y tally) evidence.Figure {
	name := fmt.Sprintf("%s, %s, without WithReplicas", evidence.Ours, p.name)
	if n > 0 {
		name = fmt.Sprintf("%s, %s, %d of %d replicas confirm", evidence.Ours, p.name, n, of)
	}
	return evidence.Figure{
		Library: name, Held: y.Holds - min(y.Holds, y.Clashes+y.Falls), Tried: y.Holds, NotJudged: !p.inStep && n < of,
		Worst: fmt.Sprintf("%d overlaps, %d of %d fences fell in %d failovers; no hold of a lock for %v at most; %s",
			y.Clashes, y.Falls, y.Fences, y.failovers, y.Gap.Round(10*time.Millisecond), y.First),
	}
}
