package bounds_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/redistest/bounds"
)

const (
	tolerance = 50 * time.Millisecond
	tooLong   = 500 * time.Millisecond // over its bound a call is not waited for any longer before the server goes on
	attempts  = 4                      // a call that outlasts its bound is tried again: perhaps it was the machine
	together  = 5                      // kinds of pools at once
)

func TestNoCallOutlastsItsBoundWhileTheServerIsStopped(t *testing.T) {
	t.Parallel()
	table(t, bounds.Stopped, bounds.Kinds())
}

func TestNoCallOutlastsItsBoundWhileDiallingHangs(t *testing.T) {
	t.Parallel()
	for _, way := range []bounds.Way{bounds.Dial, bounds.Handshake, bounds.Auth, bounds.Select} {
		t.Run(way.Name, func(t *testing.T) {
			t.Parallel()
			table(t, way, slices.DeleteFunc(bounds.Kinds(), func(k bounds.Kind) bool { return !k.Dials }))
		})
	}
}

func TestNoCallOutlastsItsBoundWhileCommandsHang(t *testing.T) {
	t.Parallel()
	for _, way := range []bounds.Way{bounds.Command, bounds.Reply, bounds.OldConns} {
		t.Run(way.Name, func(t *testing.T) {
			t.Parallel()
			table(t, way, bounds.Kinds())
		})
	}
}

// table runs all verbs over the kinds of pools while the server hangs in the way w. Those that outlast their bound run
// again, fewer at once. How late the machine was is forgiven the last time alone, so that a busy machine hides little.
func table(t *testing.T, w bounds.Way, kinds []bounds.Kind) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	redistest.Needs(t, redistest.ChannelRules)
	b := bounds.New(t, w)
	cells := b.Cells(kinds...)
	all := len(cells)
	limit := make(map[*bounds.Cell]time.Duration)
	for attempt := 0; attempt < attempts && len(cells) > 0; attempt++ {
		for wave := range waves(cells) {
			late := b.Run(wave, tooLong)
			if attempt < attempts-1 {
				late = 0
			}
			for _, c := range wave {
				limit[c] = tolerance + late
			}
		}
		cells = slices.DeleteFunc(cells, func(c *bounds.Cell) bool { return c.Unready == "" && !c.Overtime && c.Over <= limit[c] })
	}
	for _, c := range cells {
		switch {
		case c.Unready != "":
			t.Errorf("%s / %s: %s", c.Kind.Name, c.Verb.Name, c.Unready)
		case c.Overtime:
			t.Errorf("%s / %s: still under way %v after its bound of %v", c.Kind.Name, c.Verb.Name, tooLong, c.Verb.Bound)
		default:
			t.Errorf("%s / %s: took %v more than its bound of %v, of which %v are allowed", c.Kind.Name, c.Verb.Name, c.Over, c.Verb.Bound, limit[c])
		}
	}
	if b.Met() == 0 {
		t.Error("no try has failed: the server did not hang, and nothing was shown")
	}
	t.Logf("%d of %d calls outlast their bounds; %d tries met the silence", len(cells), all, b.Met())
}

// waves are the cells of a few kinds of pools at a time.
func waves(cells []*bounds.Cell) func(func([]*bounds.Cell) bool) {
	return func(yield func([]*bounds.Cell) bool) {
		var wave []*bounds.Cell
		seen := make(map[string]bool)
		for _, c := range cells {
			if !seen[c.Kind.Name] && len(seen) == together {
				if !yield(wave) {
					return
				}
				wave = nil
				clear(seen)
			}
			seen[c.Kind.Name] = true
			wave = append(wave, c)
		}
		if len(wave) > 0 {
			yield(wave)
		}
	}
}
