package lock

import (
	"time"

	"github.com/redimutex/redimutex/internal/quorum"
)

// An Info is what this process knows of one key, without asking a server.
type Info struct {
	Key     string
	Held    bool
	Idle    bool // Held, but parked
	Owner   string
	Fence   int64
	Since   time.Time
	Until   time.Time
	TTL     time.Duration
	Waiting int
	Failure *quorum.Failure // not Held: why the last try has failed
}

// Infos returns what is known of the keys that this process holds or waits for.
func (e *Engine) Infos() map[string]*Info {
	all := make(map[string]*Info)
	for _, l := range e.keeper.Leases() {
		g := l.Holder().(*Grant)
		all[g.key.name] = &Info{
			Key: g.key.name, Held: true, Owner: g.terms.Owner, Fence: g.won.Fence,
			Since: g.won.At, Until: l.Until(), TTL: l.TTL(),
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, k := range e.keys {
		info := all[name]
		if info == nil {
			info = &Info{Key: name}
		}
		taken, waiting := k.fifo.Queued()
		info.Waiting = waiting
		info.Idle = info.Held && !taken
		if f := k.failure.Load(); f != nil && taken && !info.Held {
			info.Waiting++ // the one that asks the servers
			info.Failure = f
		}
		if info.Waiting > 0 {
			all[name] = info
		}
	}
	return all
}
