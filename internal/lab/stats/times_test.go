package stats_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/lab/stats"
)

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
