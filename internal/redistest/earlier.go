package redistest

import (
	"time"
	"unsafe"
)

// Earlier returns t with a wall clock reading that is d earlier, and the same monotonic reading. A time that was taken before
// the machine slept for d looks like this.
func Earlier(t time.Time, d time.Duration) time.Time {
	was := t
	wall := (*uint64)(unsafe.Pointer(&t)) // a flag, 33 bits of seconds, 30 bits of nanoseconds
	nanos := (*wall<<1>>31)*1e9 + *wall&(1<<30-1) - uint64(d)
	*wall = 1<<63 | nanos/1e9<<30 | nanos%1e9
	if was.Sub(t) != 0 || was.Round(0).Sub(t.Round(0)) != d {
		panic("time.Time is not what this function takes it for")
	}
	return t
}
