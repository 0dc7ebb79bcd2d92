// Package stats summarizes many measured times.
package stats

import (
	"math"
	"slices"
	"time"
)

// Times are repeated measurements of how long something took.
type Times []time.Duration

// Quantile returns the time that a share q of all does not exceed, and 0 if there are none.
func (t Times) Quantile(q float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	const rounding = 1e-6 // of products such as 0.99 times 100
	i := int(math.Ceil(q*float64(len(t)) - rounding))
	return slices.Sorted(slices.Values(t))[max(0, min(i, len(t))-1)]
}

// Worst returns the longest time.
func (t Times) Worst() time.Duration { return t.Quantile(1) }
