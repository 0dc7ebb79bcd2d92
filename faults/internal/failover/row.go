// Package failover counts the locks that were acknowledged and then forgotten when the primary of a Sentinel group or of a
// Cluster is killed, paused or cut off.
package failover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// Rows returns what this package has for the table.
func Rows() []evidence.Row {
	return []evidence.Row{evidence.Played(evidence.Row{
		ID: 17, Name: "failover",
		Fault: "Sentinel and Cluster failover, replication lag 0-100 ms, partition",
		Must:  "WithReplicas loses no acknowledged lock; fences never fall",
		Short: 15 * time.Second, Long: 8 * time.Minute,
	}, playAll)}
}

// A plan is a group of servers and the faults of its primaries, one after another.
type plan struct {
	start  func(testing.TB, delay) *group
	lag    delay
	faults []string
}

// plans returns the plans of one round. A Sentinel group gets one fault, because it takes long to recover. A Cluster has a
// primary for each fault.
func plans(long bool) []plan {
	if !long {
		return []plan{
			{startSentinel, delay{time: 20 * time.Millisecond}, []string{partitioned}},
			{startCluster, delay{time: 20 * time.Millisecond}, []string{killed}},
		}
	}
	var all []plan
	for _, ms := range []time.Duration{0, 1, 5, 20, 100} {
		lag := delay{time: ms * time.Millisecond}
		for _, fault := range []string{killed, paused, partitioned} {
			all = append(all, plan{startSentinel, lag, []string{fault}})
		}
		all = append(all, plan{startCluster, lag, []string{killed, paused, partitioned}})
	}
	// Here one replica confirms at once, and the other one lags. The first has to be promoted.
	for _, fault := range []string{killed, paused, partitioned} {
		all = append(all, plan{startSentinel, delay{100 * time.Millisecond, true}, []string{fault}})
	}
	return all
}

// all has the scenes that were played so far.
type all struct {
	mu     sync.Mutex
	scenes []*scene
}

// playAll plays the plans of a round, and in the long version more rounds while there is time. The first round is always
// played to its end, because it has every kind of scene.
func playAll(s *evidence.Scene) {
	var seen all
	for q := s.Quota(1, 1); q.More(); q.Done++ {
		todo := plans(s.Long)
		s.Parts(len(todo), func(i int) error {
			return evidence.Stage(s.Context(), func(t testing.TB) { todo[i].play(s.Context(), t, s.Seed+uint64(q.Done), &seen) })
		})
	}
	s.Figure(seen.figures()...)
	for _, x := range seen.scenes {
		words := make([]string, len(x.ledgers))
		for j, l := range x.ledgers {
			words[j] = fmt.Sprintf("%s lost %d of %d", l.name, l.lost, len(l.acks))
		}
		s.Note("%s, primary %s, lag %v, a new primary after %v: %s.",
			x.kind, x.fault, x.lag, x.took.Round(100*time.Millisecond), strings.Join(words, "; "))
	}
	s.Note("Seed %d. Half of the clients are on the machine of the primary, and stay with it when it is cut off.", s.Seed)
	s.Note("All servers have one clock, so these fences say nothing about servers whose clocks differ.")
}

func (p plan) play(ctx context.Context, t testing.TB, seed uint64, seen *all) {
	g := p.start(t, p.lag)
	for victim, fault := range p.faults {
		g.aim(victim, seed)
		s := play(ctx, t, g, fault, seed)
		if t.Failed() || ctx.Err() != nil {
			return
		}
		seen.mu.Lock()
		seen.scenes = append(seen.scenes, s)
		seen.mu.Unlock()
	}
}

// figures adds up the results of the scenes.
func (a *all) figures() (figures []evidence.Figure) {
	fences := evidence.Figure{Library: evidence.Ours + " fences"}
	for _, kind := range lockers() {
		f, worst, where := evidence.Figure{Library: kind.name, NotJudged: !kind.judged}, 0, ""
		for _, s := range a.scenes {
			for _, l := range s.ledgers {
				if l.name != kind.name {
					continue
				}
				f.Tried, f.Held = f.Tried+len(l.acks), f.Held+len(l.acks)-l.lost
				fences.Tried, fences.Held = fences.Tried+l.rises+l.falls, fences.Held+l.rises
				if l.lost > worst {
					worst, where = l.lost, fmt.Sprintf(", %d of %d in the worst: %s %s, lag %v", l.lost, len(l.acks), s.kind, s.fault, s.lag)
				}
			}
		}
		f.Worst = fmt.Sprintf("%d lost%s", f.Tried-f.Held, where)
		figures = append(figures, f)
	}
	fences.Worst = fmt.Sprintf("%d fell", fences.Tried-fences.Held)
	return slices.Insert(figures, 1, fences)
}
