package holds

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

func TestNoHandOverIsMissedWhenMessagesAreLost(t *testing.T) {
	flapping().Hold(t, 5*time.Second)
}

func TestALateHandOverIsFound(t *testing.T) {
	none := func(instant, instant) time.Duration { return 0 }
	at := func(d time.Duration) instant { return instant(0).Add(d) }
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
