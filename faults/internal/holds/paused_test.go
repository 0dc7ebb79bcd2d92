package holds

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestNoWriteOfAHolderThatWasPausedIsAccepted(t *testing.T) {
	r := paused().Hold(t, 6*time.Second)
	for _, peer := range r.Figures[3:] {
		assert.Less(t, peer.Held, peer.Tried, "the fault is real: %v", peer)
	}
}

func TestStaleWritesAreCountedWhereNothingRefusesThem(t *testing.T) {
	k := kit{Library: "redimutex", TTL: pausedTTL, Addrs: []string{redistest.Real(t).Addr()}}
	redistest.Repeat(t, "a stale write, and that it is found", func() bool { // not every pause hits a write
		return !staged(t, paused(), time.Second, func(s *evidence.Scene) { pauseAll(s, []kit{k}) }).OK()
	})
}
