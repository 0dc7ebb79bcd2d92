package stats

import (
	"math/bits"
	"slices"
	"time"
)

// A Histogram counts durations in buckets that are about 1% wide: each power of two has 64 of them.
type Histogram map[int]int64

const subBuckets = 64

// bucket returns the bucket of d.
func bucket(d time.Duration) int {
	n := uint64(max(d, 0))
	if n < 2*subBuckets {
		return int(n)
	}
	shift := bits.Len64(n) - bits.Len64(2*subBuckets-1)
	return shift*subBuckets + int(n>>shift)
}

// middle returns the duration in the middle of a bucket.
func middle(bucket int) time.Duration {
	if bucket < 2*subBuckets {
		return time.Duration(bucket)
	}
	shift := bucket/subBuckets - 1
	low := uint64(bucket-shift*subBuckets) << shift
	return time.Duration(low + 1<<shift/2)
}

// Add counts d.
func (h Histogram) Add(d time.Duration) { h[bucket(d)]++ }

// Merge counts what other has counted.
func (h Histogram) Merge(other Histogram) {
	for b, n := range other {
		h[b] += n
	}
}

// Count returns how many durations were counted.
func (h Histogram) Count() (n int64) {
	for _, c := range h {
		n += c
	}
	return n
}

// Quantile returns a duration that a share q of all does not exceed, and 0 if there are none.
func (h Histogram) Quantile(q float64) time.Duration {
	want := q * float64(h.Count())
	var got int64
	var last time.Duration
	for d, n := range h.each() {
		got += n
		last = d
		if float64(got) >= want {
			break
		}
	}
	return last
}

// Shares calls f with every duration that occurs, ascending, and the share that does not exceed it.
func (h Histogram) Shares(f func(d time.Duration, share float64)) {
	all := float64(h.Count())
	var got int64
	for d, n := range h.each() {
		got += n
		f(d, float64(got)/all)
	}
}

func (h Histogram) each() func(yield func(time.Duration, int64) bool) {
	buckets := make([]int, 0, len(h))
	for b := range h {
		buckets = append(buckets, b)
	}
	slices.Sort(buckets)
	return func(yield func(time.Duration, int64) bool) {
		for _, b := range buckets {
			if !yield(middle(b), h[b]) {
				return
			}
		}
	}
}
