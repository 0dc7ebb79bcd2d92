package redimutex

import (
	"cmp"
	"slices"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
)

// Stats are figures of one [Client], counted since it was made. Held and Waiting are as of now.
type Stats struct {
	Held        int   // leases of this process, also idle ones (see [WithLeaseReuse]); one for all keys of a MutexAll
	Waiting     int   // goroutines that wait for a lock just now, in line or between two tries
	Acquired    int64 // locks acquired
	Contended   int64 // of those, not at the first try
	Released    int64 // locks unlocked
	Failed      int64 // calls that ended without the lock, for whatever reason
	Renewed     int64 // renewals, and calls of Extend, that succeeded
	NotRenewed  int64 // renewals, and calls of Extend, that failed; a renewal is repeated while there is time
	LostExpired int64 // leases lost, by reason; see [Reason]
	LostDeleted int64
	LostTaken   int64
	Errors      []int64       // failed operations by server, in the order of the pools, also where the others were enough
	WaitTime    time.Duration // sum over all acquired locks, from the call to the lock
	HoldTime    time.Duration // sum over all holds that have ended
}

// Stats returns the figures of the Client.
func (c *Client) Stats() Stats {
	return Stats{
		Held:        c.engine.Held(),
		Waiting:     int(c.engine.Waiting.Load()),
		Acquired:    c.acquired.Load(),
		Contended:   c.contended.Load(),
		Released:    c.released.Load(),
		Failed:      c.failed.Load(),
		Renewed:     c.engine.Renewed.Load(),
		NotRenewed:  c.engine.NotRenewed.Load(),
		LostExpired: c.engine.Lost[keepalive.Expired].Load(),
		LostDeleted: c.engine.Lost[keepalive.Deleted].Load(),
		LostTaken:   c.engine.Lost[keepalive.Taken].Load(),
		Errors:      c.engine.Errors(),
		WaitTime:    time.Duration(c.waitTime.Load()),
		HoldTime:    time.Duration(c.holdTime.Load()),
	}
}

// A LockInfo is what this process knows of one lock, without asking a server. The fields from Holds to TTL are zero while
// this process does not hold the lock. Of several holds, Owner, Fence and Since are those of the oldest, Until and TTL those
// of the first to end. Err is nil while this process holds the lock. Of permits and readers, which it may hold and wait for
// at the same time, Err is nil while none of its goroutines waits.
type LockInfo struct {
	Key     string
	Keys    []string      // of [Client.MutexAll]: all of them; else nil
	Kind    string        // mutex, semaphore, reader or writer
	Waiting int           // goroutines of this process that wait for it
	Held    bool          // this process has it
	Holds   int           // how many have it; more than one of a semaphore, or of readers
	Idle    bool          // no caller uses it just now; see [WithLeaseReuse]
	Owner   string        // see [WithOwner]
	Fence   int64         // the fence with which the servers gave it, with [WithFencing]
	Since   time.Time     // when the servers gave it
	Until   time.Time     // end of the validity, unless it is renewed before
	TTL     time.Duration // what a renewal asks for
	Err     error         // why the last try has failed
}

// Locks returns the locks that this process holds or waits for, sorted by key. It is a snapshot for people to look
// at: by the time that it returns, it may have changed.
func (c *Client) Locks() []LockInfo {
	infos := c.engine.Infos()
	all := make([]LockInfo, 0, len(infos))
	for _, x := range infos {
		info := LockInfo{
			Key: x.Keys[0], Kind: x.Kind.Name, Held: x.Holds > 0, Holds: x.Holds, Idle: x.Idle, Owner: x.Owner, Fence: x.Fence,
			Since: x.Since, Until: x.Until, TTL: x.TTL, Waiting: x.Waiting,
		}
		if len(x.Keys) > 1 {
			info.Keys = x.Keys
		}
		if x.Failure != nil {
			info.Err = (&object{client: c, key: info.Key, more: x.Keys[1:], config: c.config}).serversError(x.Failure)
		}
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b LockInfo) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Kind, b.Kind)) })
	return all
}
