package redimutex

import (
	"math"
	"math/rand/v2"
	"time"
)

// Linear waits step after the first try, two steps after the second, and so on. It panics if step is not positive.
func Linear(step time.Duration) func(attempt int) time.Duration {
	must(step > 0, "Linear(%v): the step has to be more than 0", step)
	return func(attempt int) time.Duration {
		if d := step * time.Duration(attempt); d/step == time.Duration(attempt) {
			return d
		}
		return math.MaxInt64
	}
}

// Exponential waits first after the first try, and twice as long after each further one, but never longer than limit.
func Exponential(first, limit time.Duration) func(attempt int) time.Duration {
	must(first > 0 && first <= limit, "Exponential(%v, %v): the first wait has to be more than 0 and at most the limit", first, limit)
	return func(attempt int) time.Duration {
		d := first
		for ; attempt > 1 && d < limit; attempt-- {
			d += min(d, limit-d)
		}
		return d
	}
}

// Jittered varies the waits of another backoff at random, by half up and down, so that waiters that collided once do not keep
// colliding. No wait is longer than the longest [time.Duration].
func Jittered(wait func(attempt int) time.Duration) func(attempt int) time.Duration {
	must(wait != nil, "Jittered: the function is nil")
	return func(attempt int) time.Duration { return jitter(wait(attempt)) }
}

func jitter(d time.Duration) time.Duration {
	if d <= 1 {
		return d
	}
	half, more := d/2, rand.N(d)
	return half + min(more, math.MaxInt64-half)
}
