package redimutex

import (
	"sync/atomic"
	"time"
)

// Stats are figures of one [Client], counted since it was made. Held and Waiting are as of now.
type Stats struct {
	Held    int // holds that are alive
	Waiting int // goroutines in Lock, LockContext or Do that do not have the lock yet

	Acquired   int64 // locks acquired
	Contended  int64 // of those, not at the first try
	Released   int64 // locks unlocked
	Failed     int64 // calls that ended without the lock, for whatever reason
	Renewed    int64 // renewals that succeeded
	NotRenewed int64 // renewals that failed and were repeated, if there was time

	LostExpired int64 // leases lost, by reason; see [Reason]
	LostDeleted int64
	LostTaken   int64

	Errors []int64 // failed operations by server, in the order of the pools, also where the others were enough

	WaitTime time.Duration // sum over all acquired locks, from the call to the lock
	HoldTime time.Duration // sum over all holds that have ended
}

// counters are the parts of Stats that count up.
type counters struct {
	waiting, acquired, contended, released, failed, renewed, notRenewed atomic.Int64
	expired, deleted, taken                                             atomic.Int64
	waitTime, holdTime                                                  atomic.Int64
}

func (c *counters) lost(r Reason) {
	switch r {
	case Expired:
		c.expired.Add(1)
	case Deleted:
		c.deleted.Add(1)
	case Taken:
		c.taken.Add(1)
	case Closed:
	}
}

func (c *counters) stats() Stats {
	return Stats{
		Waiting:     int(c.waiting.Load()),
		Acquired:    c.acquired.Load(),
		Contended:   c.contended.Load(),
		Released:    c.released.Load(),
		Failed:      c.failed.Load(),
		Renewed:     c.renewed.Load(),
		NotRenewed:  c.notRenewed.Load(),
		LostExpired: c.expired.Load(),
		LostDeleted: c.deleted.Load(),
		LostTaken:   c.taken.Load(),
		WaitTime:    time.Duration(c.waitTime.Load()),
		HoldTime:    time.Duration(c.holdTime.Load()),
	}
}
