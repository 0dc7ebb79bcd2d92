package server

import (
	"strconv"
	"time"
)

// fenceTTL is how long a fence counter outlives the last acquisition. A counter that expired
// restarts from the server's clock, which is ahead of it unless the clock was set back.
const fenceTTL = time.Hour

// queueTTL is how long a queue outlives the last waiter who came by. Live waiters come by every second.
const queueTTL = 30 * time.Second

// guardKey marks a server that has kept its data.
const guardKey = reserved + "guard"

// Arguments that are put into interfaces once.
var (
	counterTTL any = fenceTTL.Milliseconds()
	waitersTTL any = queueTTL.Milliseconds()
)

// arguments lays out the arguments of a command. It is used again and again, and remembers the
// values of the last time: the same key, token or TTL need not be put into an interface again,
// which would allocate. The first place of what goes to session.eval is left for the script.
type arguments struct {
	list            [20]any
	key, token, ttl any
	back            any // a []any: see undo
}

// remember puts what most commands have into interfaces, unless it is what it was. A release has no TTL, and leaves that
// of the next try in its place.
func (a *arguments) remember(l *Lock, ttl time.Duration) {
	if k, _ := a.key.(string); k != l.Key {
		a.key = l.Key
	}
	if t, _ := a.token.(string); t != l.Token {
		a.token = l.Token
	}
	if ms, _ := a.ttl.(int64); ttl > 0 && ms != ttl.Milliseconds() {
		a.ttl = ttl.Milliseconds()
	}
}

// plain is what follows SET in the command.
func (a *arguments) plain(t *Try) []any {
	a.remember(&t.Lock, t.TTL)
	return append(a.list[:0], a.key, a.token, "NX", "PX", a.ttl)
}

// undoPlain puts the whole command that takes back what plain has laid out into list.
func undoPlain(list []any, key, token any) []any {
	return append(list[:0], "EVAL", releaseScript.source, 1, key, token, "0")
}

// undo is undoPlain as the value of a ctx, for what plain has laid out last. It lasts until the next one.
func (a *arguments) undo() any {
	list, _ := a.back.([]any)
	if list == nil {
		list = make([]any, 6)
		a.back = list
	}
	undoPlain(list, a.key, a.token)
	return a.back
}

// counterFor is the TTL of the fence counter of a lock that lives for ttl.
func counterFor(ttl time.Duration) int64 { return (ttl + fenceTTL).Milliseconds() }

// acquire is for acquire.lua.
func (a *arguments) acquire(t *Try, due int64) []any {
	a.remember(&t.Lock, t.TTL)
	list := append(a.list[:0], nil, nil, a.key)
	guard := any("0")
	if t.Fencing {
		list = append(list, FenceKey(t.Key))
	}
	if t.Guard {
		list, guard = append(list, guardKey), "1"
	}
	list[1] = len(list) - 2
	return append(list, a.token, a.ttl, due, t.Fencing, counterFor(t.TTL), guard)
}

// acquireQueued is for acquire_queued.lua.
func (a *arguments) acquireQueued(t *Try, due int64, cluster bool) []any {
	a.remember(&t.Lock, t.TTL)
	list := append(a.list[:0], nil, 3, a.key, QueueKey(t.Key), FenceKey(t.Key))
	if t.Guard {
		list[1] = 4
		list = append(list, guardKey)
	}
	return append(list, a.token, a.ttl, due, t.Fencing, counterFor(t.TTL), t.Ticket.member(), t.Ticket.Name,
		t.Ticket.Arrived, t.Ticket.Rejoin, waitersTTL, cluster)
}

// release is for release.lua or release_queued.lua.
func (a *arguments) release(r *Release, cluster bool) (script, []any) {
	a.remember(&r.Lock, 0)
	keep := any("0")
	if r.Keep > 0 {
		keep = (r.Keep + time.Millisecond - 1).Milliseconds() // rounded up
	}
	if r.Queue {
		list := append(a.list[:0], nil, 3, a.key, QueueKey(r.Key), FenceKey(r.Key), a.token, keep, counterTTL)
		return releaseQueuedScript, append(list, r.Ticket.member(), r.Ticket.Name, cluster)
	}
	return releaseScript, append(a.list[:0], nil, 1, a.key, a.token, keep)
}

// extend is for extend.lua.
func (a *arguments) extend(e *Extension, due int64) []any {
	a.remember(&e.Lock, e.TTL)
	if e.Fencing {
		return append(a.list[:0], nil, 2, a.key, FenceKey(e.Key), a.token, a.ttl, due, counterFor(e.TTL))
	}
	return append(a.list[:0], nil, 1, a.key, a.token, a.ttl, due)
}

// member is what stands for a waiter in the queue; handover.lua takes it apart.
func (t *Ticket) member() string {
	if t.Name == "" {
		return ""
	}
	fencing := "0"
	if t.Fencing {
		fencing = "1"
	}
	return t.Channel + " " + fencing + " " + strconv.FormatInt(max(t.HandOff.Milliseconds(), 1), 10) + " " + t.Name
}
