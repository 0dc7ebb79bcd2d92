package holds

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSamplesAreHeldAgainstTheirLimit(t *testing.T) {
	b := bound{limit: 10 * time.Millisecond, words: "10 ms", strict: true, share: .99}
	samples := make([]sample, 100)
	assert.True(t, b.figure("all in time", samples).OK())
	samples[7].took = 20 * time.Millisecond
	assert.True(t, b.figure("one of a hundred late", samples).OK())
	samples[8] = sample{20 * time.Millisecond, 5 * time.Millisecond}
	assert.True(t, b.figure("another on a machine that was late itself", samples).OK())
	samples[9].took = 11 * time.Millisecond
	late := b.figure("two late", samples)
	assert.False(t, late.OK())
	assert.Equal(t, 98, late.Held)
	b.unheard = 1
	assert.False(t, b.figure("one never came", make([]sample, 1000)).OK())
}

func TestNoiseIsTheWorstThatTouchesTheTime(t *testing.T) {
	n := &noise{late: []lateness{{10, 30}, {1e9, 1e9 + 5e6}, {2e9, 2e9 + 7e6}, {3e9, 3e9 + 9e6}}}
	assert.Equal(t, 7*time.Millisecond, n.worst(1e9+5e6, 2e9))
	assert.Equal(t, noiseStep/2, n.worst(4e9, 5e9), "what is too short to be noted")
}
