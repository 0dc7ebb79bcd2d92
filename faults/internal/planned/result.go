package planned

import (
	"fmt"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// A sum is what contests of one plan have shown, with so many replicas that confirm.
type sum struct {
	holds, clashes, falls, fenced int
	failovers                     int
	gap                           time.Duration
	first                         *contest // in which something was wrong
}

func (s *sum) add(c *contest) {
	c.mu.Lock() // it may be going on
	defer c.mu.Unlock()
	s.holds += c.holds
	s.clashes += c.clashes
	s.falls += c.falls
	if c.way.fenced {
		s.fenced += c.holds
	}
	s.gap = max(s.gap, c.gap)
	if c.clashes+c.falls > 0 && s.first == nil {
		s.first = c
	}
}

// result adds up. What is judged is where nothing may be forgotten: the primary waits for its replica, or every replica has
// confirmed the lock.
func result(scenes []*scene, seed uint64) evidence.Result {
	var judged, rest []evidence.Figure
	var r evidence.Result
	for _, p := range plans() {
		most := -1
		sums := make(map[int]*sum)
		for _, sc := range scenes {
			if sc.plan.name != p.name {
				continue
			}
			most = sc.replicas
			for _, c := range sc.contests {
				if sums[c.replicas] == nil {
					sums[c.replicas] = new(sum)
				}
				sums[c.replicas].add(c)
			}
			for _, s := range sums {
				s.failovers += sc.failovers
			}
		}
		for n := 0; n <= most; n++ {
			s := sums[n]
			f := figure(p.name, n, most, s)
			f.NotJudged = !p.inStep && n < most
			if f.NotJudged {
				rest = append(rest, f)
			} else {
				judged = append(judged, f)
			}
			if s.first != nil {
				r.Notes = append(r.Notes, fmt.Sprintf("%s: %d overlaps and %d fences that fell with %v.", p.name, s.first.clashes, s.first.falls, s.first))
			}
		}
	}
	r.Figures = append(judged, rest...)
	r.Notes = append(r.Notes,
		"FAILOVER and CLUSTER FAILOVER hold writes back until the replica has all of them. REPLICAOF by hand and SENTINEL FAILOVER don't: "+
			"what the old primary grants in the last moment is forgotten, unless every replica has to confirm it. "+
			"Where a primary has two replicas, and one is promoted, the other may go on confirming to the old primary; so one of two is not enough.",
		fmt.Sprintf("Seed %d. %d rivals for each lock, with a TTL of %v; all servers have one clock.", seed, rivals, ttl))
	return r
}

func figure(plan string, n, most int, s *sum) evidence.Figure {
	name := fmt.Sprintf("%s, %s, without WithReplicas", evidence.Ours, plan)
	if n > 0 {
		name = fmt.Sprintf("%s, %s, %d of %d replicas confirm", evidence.Ours, plan, n, most)
	}
	return evidence.Figure{
		Library: name, Held: s.holds - min(s.holds, s.clashes+s.falls), Tried: s.holds,
		Worst: fmt.Sprintf("%d overlaps, %d of %d fences fell in %d failovers; no hold of a lock for %v at most",
			s.clashes, s.falls, s.fenced, s.failovers, s.gap.Round(10*time.Millisecond)),
	}
}
