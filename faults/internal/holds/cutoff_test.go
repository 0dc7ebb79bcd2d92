package holds

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestAHolderThatIsCutOffIsToldBeforeItsTime(t *testing.T) {
	cutOff().Hold(t, 5*time.Second)
}

// A late library counts the validity from the reply, and too generously.
type late struct {
	peers.Library
	ttl time.Duration
}

type lateSlot struct {
	peers.Slot
	lasts time.Duration
	over  chan struct{}
	ends  time.Time
}

func (l late) Slot(key string) peers.Slot {
	return &lateSlot{Slot: l.Library.Slot(key), lasts: l.ttl * 3 / 2, over: make(chan struct{})}
}

func (l *lateSlot) Lock(ctx context.Context) error {
	err := l.Slot.Lock(ctx)
	time.AfterFunc(l.lasts, func() { close(l.over) })
	l.ends = time.Now().Add(l.lasts)
	return err
}

func (l *lateSlot) Done() <-chan struct{} { return l.over }
func (l *lateSlot) Valid() bool           { return time.Now().Before(l.ends) }

func init() {
	libraries["late"] = func(k kit) peers.Library {
		k.Fixed = true
		return late{newOurs(k), k.TTL}
	}
}

func TestAHoldThatSeemsValidForTooLongIsFound(t *testing.T) {
	if !redistest.Installed() {
		t.Skip("needs a real redis-server: miniredis can't be stopped")
	}
	r := staged(t, cutOff(), time.Millisecond, func(s *evidence.Scene) { cutAll(s, []kit{{Library: "late", Addrs: make([]string, 1)}}) })
	assert.False(t, r.OK(), "%v", r.Figures)
}
