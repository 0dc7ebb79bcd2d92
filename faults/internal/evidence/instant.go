package evidence

import (
	"time"

	"golang.org/x/sys/unix"
)

// An Instant is a time in ns on the monotonic clock that all processes of a machine share.
type Instant int64

// Now is the present instant.
func Now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every kernel that Go runs on has that clock
	}
	return Instant(ts.Nano())
}

// origin is one moment on both clocks. Go's monotonic clock counts the same nanoseconds as that of an Instant.
var origin = func() (o struct {
	instant Instant
	time    time.Time
},
) {
	apart := time.Hour
	for range 100 { // the clocks are read one after the other, and this goroutine may be held up in between
		i := Now()
		t := time.Now()
		if d := Now().Sub(i); d < apart {
			o.instant, o.time, apart = i, t, d
		}
	}
	return o
}()

// InstantOf converts t. The result may be too early by less than a microsecond, and is never too late, so no library is blamed
// for more than it promised.
func InstantOf(t time.Time) Instant { return origin.instant.Add(t.Sub(origin.time)) }

func (i Instant) Time() time.Time                 { return origin.time.Add(i.Sub(origin.instant)) }
func (i Instant) Add(d time.Duration) Instant     { return i + Instant(d) }
func (i Instant) Sub(other Instant) time.Duration { return time.Duration(i - other) }
