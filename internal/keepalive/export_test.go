package keepalive

import (
	"time"

	"github.com/redimutex/redimutex/internal/redistest"
)

// Slept changes all times that the Keeper has noted, as if the machine had slept for d.
func (k *Keeper) Slept(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.leases {
		l.until = redistest.Earlier(l.until, d)
	}
}

// Wakes returns when the timer fires, or zero if it is not set.
func (k *Keeper) Wakes() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.armed
}
