package keepalive

import (
	"time"
	"unsafe"
)

// Earlier returns t with a wall reading that is d earlier, and the same monotonic one. That is how a time
// looks that was taken before the machine slept for d.
func Earlier(t time.Time, d time.Duration) time.Time {
	was := t
	wall := (*uint64)(unsafe.Pointer(&t)) // a flag, 33 bits of seconds, 30 bits of nanoseconds
	nanos := (*wall<<1>>31)*1e9 + *wall&(1<<30-1) - uint64(d)
	*wall = 1<<63 | nanos/1e9<<30 | nanos%1e9
	if was.Sub(t) != 0 || was.Round(0).Sub(t.Round(0)) != d {
		panic("time.Time is not what this test takes it for")
	}
	return t
}

// Slept makes all that the Keeper has noted look as it does after the machine has slept for d.
func (k *Keeper) Slept(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looked = Earlier(k.looked, d)
	for _, l := range k.leases {
		l.until = Earlier(l.until, d)
	}
}

// RanAhead is what a heartbeat asks.
func (k *Keeper) RanAhead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.looked.IsZero() {
		k.looked = time.Now()
	}
	return k.ranAhead(time.Now())
}

// Wakes returns when the timer fires; zero: it is not set.
func (k *Keeper) Wakes() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.armed
}
