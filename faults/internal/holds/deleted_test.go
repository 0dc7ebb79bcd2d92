package holds

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestALockWhoseKeyGoesAwayIsSignalledAsLost(t *testing.T) {
	deleted().Hold(t, 3*time.Second)
}

// A deaf library never hears that a key has gone.
type deaf struct{ peers.Library }

type deafSlot struct{ peers.Slot }

func (d deaf) Slot(key string) peers.Slot { return deafSlot{d.Library.Slot(key)} }

func (deafSlot) Done() <-chan struct{} { return make(chan struct{}) }

func init() {
	libraries["deaf"] = func(k kit) peers.Library { return deaf{newOurs(k)} }
}

func TestALossThatIsNeverSignalledIsFound(t *testing.T) {
	k := kit{Library: "deaf", Addrs: []string{redistest.Real(t).Addr()}}
	r := staged(t, deleted(), time.Millisecond, func(s *evidence.Scene) { deleteAll(s, []deletion{{k, remove, "DEL", time.Second}}) })
	assert.False(t, r.OK())
	assert.Zero(t, r.Figures[0].Held)
}
