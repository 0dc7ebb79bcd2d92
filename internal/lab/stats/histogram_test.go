package stats_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/lab/stats"
)

func TestAHistogramIsRightToOnePercent(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 100, 127, 128, 129, 1000, 12345, time.Millisecond, 160 * time.Millisecond, time.Second, time.Hour} {
		h := make(stats.Histogram)
		h.Add(d)
		assert.InDelta(t, float64(d), float64(h.Quantile(.5)), float64(d)*.01, "%v", d)
	}
}

func TestQuantilesAreThoseOfAllThatWasMerged(t *testing.T) {
	low, high := make(stats.Histogram), make(stats.Histogram)
	for i := range 50 {
		low.Add(time.Duration(i+1) * time.Millisecond)
		high.Add(time.Duration(i+51) * time.Millisecond)
	}
	low.Merge(high)
	assert.EqualValues(t, 100, low.Count())
	assert.InDelta(t, 50, low.Quantile(.5).Seconds()*1000, .6)
	assert.InDelta(t, 99, low.Quantile(.99).Seconds()*1000, 1)
	last := 0.0
	low.Shares(func(_ time.Duration, share float64) {
		assert.Greater(t, share, last)
		last = share
	})
	assert.InDelta(t, 1, last, 1e-9)
	assert.Zero(t, make(stats.Histogram).Quantile(.5))
}
