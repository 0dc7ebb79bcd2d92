package holds

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
	assert.Equal(t, []sample{{took: 400 * time.Millisecond}}, live)
	assert.Equal(t, []sample{{took: 100 * time.Millisecond}}, failed, "it did not wait before it asked")
	b := bound{limit: liveLimit, words: "for a live release", strict: true, share: 1}
	assert.False(t, b.figure("late", live).OK())
}
