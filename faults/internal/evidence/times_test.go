package evidence

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSamplesAreHeldAgainstTheirLimit(t *testing.T) {
	b := Bound{Limit: 10 * time.Millisecond, Words: "10 ms", Strict: true, Steps: 2, Share: .99}
	samples := make([]Sample, 100)
	assert.True(t, b.Figure("all in time", samples).OK())
	samples[7].Took = 20 * time.Millisecond
	assert.True(t, b.Figure("one of a hundred late", samples).OK())
	samples[8] = Sample{20 * time.Millisecond, 5 * time.Millisecond}
	assert.True(t, b.Figure("another on a machine that was late itself", samples).OK())
	samples[9].Took = 11 * time.Millisecond
	late := b.Figure("two late", samples)
	assert.False(t, late.OK())
	assert.Equal(t, 98, late.Held)
	b.Unheard = 1
	assert.False(t, b.Figure("one never came", make([]Sample, 1000)).OK())
}

func TestAnInstantIsTheSameTimeOnBothClocks(t *testing.T) {
	for range 100 {
		before := Now()
		i := InstantOf(time.Now())
		assert.GreaterOrEqual(t, i+1000, before)
		assert.LessOrEqual(t, i, Now())
		assert.WithinDuration(t, time.Now(), Now().Time(), time.Second)
	}
}
