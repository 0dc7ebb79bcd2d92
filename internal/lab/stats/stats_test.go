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

func TestAQuantileIsTheLeastTimeThatEnoughDoNotExceed(t *testing.T) {
	var hundred stats.Times
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for q, want := range map[float64]time.Duration{0: 1, .5: 50, .99: 99, .991: 100, 1: 100} {
		assert.Equal(t, want, hundred.Quantile(q), "%v", q)
	}
	assert.EqualValues(t, 100, hundred.Worst())
	assert.EqualValues(t, 100, hundred[0], "they keep their order")
	assert.Zero(t, stats.Times(nil).Quantile(.5))
}
