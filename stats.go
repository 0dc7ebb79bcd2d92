package redimutex

import (
	"cmp"
	"slices"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
)

// Stats are figures of one [Client]. Held and Waiting are as of now; the others count since the Client was made.
type Stats struct {
	Held        int   // leases, including idle ones (see [WithLeaseReuse]); a MutexAll has one for all keys
	Waiting     int   // goroutines that wait for a lock just now, in line or between two tries
	Acquired    int64 // locks acquired
	Contended   int64 // locks acquired after more than one try
	Released    int64 // locks unlocked or handed over
	Failed      int64 // calls that ended without the lock, for whatever reason
	Renewed     int64 // renewals, and calls of Extend, that succeeded
	NotRenewed  int64 // renewals, and calls of Extend, that failed; a renewal is repeated while there is time
	LostExpired int64 // leases lost, by reason; see [Reason]
	LostDeleted int64
	LostTaken   int64
	Errors      []int64       // failed operations by server, in the order of the pools, even if the other servers were enough
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

// A LockInfo is what a Client knows of one lock, without asking a server. The fields from Holds to TTL are zero while the
// Client does not hold the lock. Of several holds, Owner, Fence and Since are those of the oldest, Until and TTL those of the
// hold that ends first. Err is nil while the Client holds the lock. It may hold permits, or be a reader, and wait for more at
// the same time: for these kinds Err is nil while no goroutine waits.
type LockInfo struct {
	Key     string
	Keys    []string      // of [Client.MutexAll]: all of them; else nil
	Kind    string        // mutex, semaphore, reader or writer
	Waiting int           // goroutines that wait for it
	Held    bool          // the Client holds it
	Holds   int           // how many holds; more than one only of a semaphore, or of readers
	Idle    bool          // no caller uses it just now; see [WithLeaseReuse]
	Owner   string        // see [WithOwner]
	Fence   int64         // the fence that the servers granted, with [WithFencing]
	Since   time.Time     // when the servers granted it
	Until   time.Time     // end of the validity, unless it is renewed before that
	TTL     time.Duration // what a renewal asks for
	Err     error         // why the last try has failed
}

// Locks returns the locks that this Client holds or waits for, sorted by key. It is a snapshot for people to look at: it may
// be out of date when Locks returns.
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
