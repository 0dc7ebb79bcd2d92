package holds

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestALockWhoseKeyGoesAwayIsSignalledAsLost(t *testing.T) {
	holds(t, deleted(), 3*time.Second)
}

// A deaf library never hears that a key has gone.
type deaf struct{ library }

type deafHold struct{ hold }

func (d deaf) lock(ctx context.Context, key string) (hold, error) {
	h, err := d.library.lock(ctx, key)
	return deafHold{h}, err
}

func (deafHold) done() <-chan struct{} { return make(chan struct{}) }

func init() {
	libraries["deaf"] = func(k kit) library { return deaf{newOurs(k)} }
}

func TestALossThatIsNeverSignalledIsFound(t *testing.T) {
	k := kit{Library: "deaf", Addrs: []string{redistest.Real(t).Addr()}}
	r, err := deleteAll(t, deleted(), evidence.Setup{Time: time.Millisecond}, []deletion{{k, remove, "DEL", time.Second}})
	require.NoError(t, err)
	assert.False(t, r.OK())
	assert.Zero(t, r.Figures[0].Held)
}

func TestSamplesAreHeldAgainstTheirLimit(t *testing.T) {
	b := bound{limit: 10 * time.Millisecond, words: "10 ms", strict: true, share: .99}
	samples := make([]sample, 100)
	assert.True(t, b.figure("all in time", samples).OK())
	samples[7].took = 20 * time.Millisecond
	assert.True(t, b.figure("one of a hundred late", samples).OK())
	samples[8] = sample{20 * time.Millisecond, 15 * time.Millisecond}
	assert.True(t, b.figure("another on a machine that was late itself", samples).OK())
	samples[9].took = 11 * time.Millisecond
	late := b.figure("two late", samples)
	assert.False(t, late.OK())
	assert.Equal(t, 98, late.Held)
	b.unheard = 1
	assert.False(t, b.figure("one never came", make([]sample, 1000)).OK())
}
