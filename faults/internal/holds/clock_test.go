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

func TestAnInstantIsTheSameTimeOnBothClocks(t *testing.T) {
	for range 100 {
		before := now()
		i := instantOf(time.Now())
		assert.GreaterOrEqual(t, i+1000, before)
		assert.LessOrEqual(t, i, now())
		assert.WithinDuration(t, time.Now(), now().Time(), time.Second)
	}
}
