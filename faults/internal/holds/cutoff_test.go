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

func TestAHolderThatIsCutOffIsToldBeforeItsTime(t *testing.T) {
	holds(t, cutOff(), 5*time.Second)
}

// A late library counts the validity from the reply, and somewhat too generously.
type late struct {
	library
	ttl time.Duration
}

type lateHold struct {
	hold
	over chan struct{}
	ends time.Time
}

func (l late) lock(ctx context.Context, key string) (hold, error) {
	h, err := l.library.lock(ctx, key)
	over := make(chan struct{})
	d := l.ttl * 11 / 10
	time.AfterFunc(d, func() { close(over) })
	return lateHold{h, over, time.Now().Add(d)}, err
}

func (l lateHold) done() <-chan struct{} { return l.over }
func (l lateHold) valid() bool           { return time.Now().Before(l.ends) }

func init() {
	libraries["late"] = func(k kit) library {
		k.Fixed = true
		return late{newOurs(k), k.TTL}
	}
}

func TestAHoldThatSeemsValidForTooLongIsFound(t *testing.T) {
	if !redistest.Installed() {
		t.Skip("needs a real redis-server: miniredis can't be stopped")
	}
	r, err := cutAll(t, cutOff(), evidence.Setup{Time: time.Millisecond}, []kit{{Library: "late", Addrs: make([]string, 1)}})
	require.NoError(t, err)
	assert.False(t, r.OK(), "%v", r.Figures)
}
