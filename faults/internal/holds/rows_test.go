package holds

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) {
	Main()
	m.Run()
}

// staged plays a part of a row for about d.
func staged(t *testing.T, row evidence.Row, d time.Duration, play func(s *evidence.Scene)) evidence.Result {
	t.Helper()
	r, err := evidence.Played(row, play).Run(t.Context(), evidence.Setup{Time: d})
	require.NoError(t, err)
	return r
}

func TestTheRowsHold(t *testing.T) {
	times := map[string]time.Duration{"deleted": 3 * time.Second, "cutoff": 5 * time.Second, "killed": 3 * time.Second, "flapping": 5 * time.Second}
	for _, row := range Rows() {
		if d := times[row.Name]; d > 0 {
			t.Run(row.Name, func(t *testing.T) { row.Hold(t, d) })
		}
	}
}

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

func init() {
	libraries["deaf"] = func(k kit) peers.Library { return deaf{newOurs(k)} }
	libraries["late"] = func(k kit) peers.Library {
		k.Fixed = true
		return late{newOurs(k), k.TTL}
	}
}

// A deaf library never signals that a key has gone.
type deaf struct{ peers.Library }

type deafSlot struct{ peers.Slot }

func (d deaf) Slot(key string) peers.Slot { return deafSlot{d.Library.Slot(key)} }

func (deafSlot) Done() <-chan struct{} { return make(chan struct{}) }

func TestALossThatIsNeverSignalledIsFound(t *testing.T) {
	k := kit{Library: "deaf", Addrs: []string{redistest.Real(t).Addr()}}
	r := staged(t, deleted(), time.Millisecond, func(s *evidence.Scene) { deleteAll(s, []deletion{{k, remove, "DEL", time.Second}}) })
	assert.False(t, r.OK())
	assert.Zero(t, r.Figures[0].Held)
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

func TestAHoldThatSeemsValidForTooLongIsFound(t *testing.T) {
	r := staged(t, cutOff(), time.Millisecond, func(s *evidence.Scene) { cutAll(s, []kit{{Library: "late", Addrs: make([]string, 1)}}) })
	assert.False(t, r.OK(), "%v", r.Figures)
}

func TestALateHandOverIsFound(t *testing.T) {
	none := func(evidence.Instant, evidence.Instant) time.Duration { return 0 }
	at := func(d time.Duration) evidence.Instant { return evidence.Instant(0).Add(d) }
	log := []turn{
		{client: 1, got: at(0), gave: at(time.Second), live: true},
		{client: 2, got: at(1400 * time.Millisecond), gave: at(1500 * time.Millisecond)},
		{client: 3, asked: at(1600 * time.Millisecond), got: at(1700 * time.Millisecond), gave: at(1800 * time.Millisecond), live: true},
	}
	live, failed := handovers(log, none)
	assert.Equal(t, []evidence.Sample{{Took: 400 * time.Millisecond}}, live)
	assert.Equal(t, []evidence.Sample{{Took: 100 * time.Millisecond}}, failed, "it did not wait before it asked")
	b := evidence.Bound{Limit: liveLimit, Words: "for a live release", Strict: true, Steps: steps, Share: 1}
	assert.False(t, b.Figure("late", live).OK())
}
