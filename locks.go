package redimutex

import (
	"cmp"
	"slices"
	"time"
)

// A LockInfo is what this process knows of one key, without asking a server.
type LockInfo struct {
	Key     string
	Held    bool          // this process has it
	Idle    bool          // Held, but nobody uses it just now; see [WithLeaseReuse]
	Owner   string        // Held: see [WithOwner]
	Fence   int64         // Held: the fence with which the servers gave it, with fencing
	Since   time.Time     // Held: when the servers gave it
	Until   time.Time     // Held: end of the validity, if it is not renewed before
	TTL     time.Duration // Held: what a renewal asks for
	Waiting int           // goroutines of this process that wait for it
	Err     error         // not Held: why the last try has failed
}

// Locks returns the keys that this process holds or waits for, sorted. It is for looking at: by the
// time that it returns, it may have changed.
func (c *Client) Locks() []LockInfo {
	c.start()
	byKey := make(map[string]*LockInfo)
	for _, life := range c.keeper.Leases() {
		t := life.Holder().(*tenure)
		byKey[t.mutex.key] = &LockInfo{
			Key: t.mutex.key, Held: true, Owner: t.mutex.config.owner, Fence: t.grant.Fence,
			Since: life.Began(), Until: life.Until(), TTL: life.TTL(),
		}
	}
	c.mu.Lock()
	for key, line := range c.lines {
		info := byKey[key]
		if info == nil {
			info = &LockInfo{Key: key}
		}
		taken, waiting := line.Queued()
		info.Waiting = waiting
		info.Idle = info.Held && !taken
		if f := line.failure.Load(); f != nil && taken && !info.Held {
			info.Waiting++ // he who asks the servers
			info.Err = (&Mutex{client: c, key: key, config: c.config}).explain(f)
		}
		if info.Waiting > 0 {
			byKey[key] = info
		}
	}
	c.mu.Unlock()
	all := make([]LockInfo, 0, len(byKey))
	for _, info := range byKey {
		all = append(all, *info)
	}
	slices.SortFunc(all, func(a, b LockInfo) int { return cmp.Compare(a.Key, b.Key) })
	return all
}
