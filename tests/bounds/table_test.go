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
	tooLong   = 500 * time.Millisecond // how long to wait for a call beyond its bound, before the server goes on
	attempts  = 5                      // a call that exceeds its bound is tried again, because the machine may have been late
	together  = 5                      // kinds of pools at a time
	few       = 16                     // how many of the repeated calls run at a time
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

// table runs all verbs over the kinds of pools, a few kinds at a time, while the server hangs in the way w. Calls that exceed
// their bounds run again, few at a time and with more patience. Only the last attempt forgives the lateness of the machine, so
// that a busy machine hides little.
func table(t *testing.T, w bounds.Way, kinds []bounds.Kind) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	redistest.Needs(t, redistest.ACL)
	b := bounds.New(t, w)
	all, outlasted := 0, 0
	for some := range slices.Chunk(kinds, together) {
		cells := b.Cells(some...)
		all += len(cells)
		wait, team := tooLong, len(cells)
		for attempt := 1; attempt <= attempts && len(cells) > 0; attempt++ {
			var failed []*bounds.Cell
			for group := range slices.Chunk(cells, team) {
				late, limit := b.Run(group, wait), tolerance
				if attempt == attempts {
					limit += late
				}
				for _, c := range group {
					if c.Unready != "" || c.Overtime || c.Over > limit {
						failed = append(failed, c)
					}
				}
			}
			cells, team, wait = failed, few, wait*2
		}
		outlasted += len(cells)
		for _, c := range cells {
			switch {
			case c.Unready != "":
				t.Errorf("%s / %s: %s", c.Kind.Name, c.Verb.Name, c.Unready)
			case c.Overtime:
				t.Errorf("%s / %s: still under way %v after its bound of %v", c.Kind.Name, c.Verb.Name, wait/2, c.Verb.Bound)
			default:
				t.Errorf("%s / %s: took %v more than its bound of %v, and more than the machine was late", c.Kind.Name, c.Verb.Name, c.Over, c.Verb.Bound)
			}
		}
	}
	if b.Met() == 0 {
		t.Error("no try has failed: the server did not hang, and nothing was shown")
	}
	t.Logf("%d of %d calls outlast their bounds; %d tries met the silence", outlasted, all, b.Met())
}
