// Package failover counts the locks that were acknowledged and then forgotten, when the primary of a
// Sentinel group or of a Cluster is killed, paused or cut off.
package failover

import (
	"context"
	"fmt"
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

// A plan is a group of servers and what is done to its primaries, one after another.
type plan struct {
	start  func(testing.TB, delay) *group
	lag    delay
	faults []string
}

// plans are the scenes of one round. A Sentinel group gets one fault, because it takes long to be
// whole again; a Cluster has a primary for each.
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
	// The replica that confirms at once has to be the one that is promoted.
	for _, fault := range []string{killed, paused, partitioned} {
		all = append(all, plan{startSentinel, delay{100 * time.Millisecond, true}, []string{fault}})
	}
	return all
}

// all is what the scenes have shown until now.
type all struct {
	mu     sync.Mutex
	scenes []*scene
	lags   []delay
}

// playAll plays the plans of a round, and in the long version more rounds while there is time. The first is always played to its
// end, because it has every kind of scene.
func playAll(s *evidence.Scene) {
	var seen all
	began := time.Now()
	for round := uint64(0); round == 0 || s.Long && s.Context().Err() == nil && time.Since(began) < s.Time; round++ {
		todo := plans(s.Long)
		once := func(i int) error {
			return evidence.Stage(s.Context(), func(t testing.TB) { todo[i].play(s.Context(), t, s.Seed+round, &seen) })
		}
		if !s.Long {
			s.SideBySide(len(todo), once) // they mostly wait
			continue
		}
		for i := range todo {
			s.Progress(i, len(todo))
			s.Must(once(i))
		}
	}
	r := seen.result(s.Seed)
	s.Figure(r.Figures...)
	for _, n := range r.Notes {
		s.Note("%s", n)
	}
}

func (p plan) play(ctx context.Context, t testing.TB, seed uint64, seen *all) {
	g := p.start(t, p.lag)
	for victim, fault := range p.faults {
		g.aim(t, victim, seed)
		s := play(ctx, t, g, fault, seed)
		if t.Failed() || ctx.Err() != nil {
			return
		}
		seen.mu.Lock()
		seen.scenes, seen.lags = append(seen.scenes, s), append(seen.lags, p.lag)
		seen.mu.Unlock()
	}
}

// result adds up.
func (a *all) result(seed uint64) evidence.Result {
	var r evidence.Result
	var rises, fences int
	for _, kind := range lockers() {
		acked, lost := 0, 0
		worst, where := 0, ""
		for i, s := range a.scenes {
			for _, l := range s.ledgers {
				if l.name != kind.name {
					continue
				}
				acked, lost = acked+len(l.acks), lost+l.lost
				rises, fences = rises+l.rises, fences+l.rises+l.falls
				if l.lost > worst {
					worst, where = l.lost, fmt.Sprintf(", %d of %d in the worst: %s %s, lag %v", l.lost, len(l.acks), s.kind, s.fault, a.lags[i])
				}
			}
		}
		r.Figures = append(r.Figures, evidence.Figure{
			Library: kind.name, Held: acked - lost, Tried: acked,
			Worst: fmt.Sprintf("%d lost%s", lost, where), NotJudged: !kind.judged,
		})
	}
	fenced := evidence.Figure{Library: evidence.Ours + " fences", Held: rises, Tried: fences, Worst: fmt.Sprintf("%d fell", fences-rises)}
	r.Figures = append(r.Figures[:1], append([]evidence.Figure{fenced}, r.Figures[1:]...)...)
	for i, s := range a.scenes {
		words := make([]string, len(s.ledgers))
		for j, l := range s.ledgers {
			words[j] = fmt.Sprintf("%s lost %d of %d", l.name, l.lost, len(l.acks))
		}
		r.Notes = append(r.Notes, fmt.Sprintf("%s, primary %s, lag %v, a new primary after %v: %s.",
			s.kind, s.fault, a.lags[i], s.took.Round(100*time.Millisecond), strings.Join(words, "; ")))
	}
	r.Notes = append(r.Notes,
		fmt.Sprintf("Seed %d. Half of the clients are on the machine of the primary, and stay with it when it is cut off.", seed),
		"All servers have one clock, so these fences say nothing about servers whose clocks differ.")
	return r
}
