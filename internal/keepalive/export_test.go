package keepalive

import (
	"time"
	"unsafe"
)

// Earlier returns t with a wall reading that is d earlier, whole seconds, and the same monotonic one. That is
// how a time looks that was taken before the machine slept for d.
func Earlier(t time.Time, d time.Duration) time.Time {
	was := t
	*(*uint64)(unsafe.Pointer(&t)) -= uint64(d/time.Second) << 30 // the bits above the nanoseconds
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
