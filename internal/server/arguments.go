package server

import "time"

// fenceTTL is how long a fence counter outlives the last acquisition. A counter that expired
// restarts from the server's clock, which is ahead of it unless the clock was set back.
const fenceTTL = time.Hour

// queueTTL is how long a queue outlives the last waiter who came by. Live waiters come by every second.
const queueTTL = 30 * time.Second

// guardKey marks a server that has kept its data.
const guardKey = reserved + "guard"

// waitersTTL is queueTTL as an argument.
var waitersTTL any = queueTTL.Milliseconds()

// counterFor is the TTL of the fence counter of a lock that lives for ttl.
func counterFor(ttl time.Duration) int64 { return (ttl + fenceTTL).Milliseconds() }

// arguments lays out the arguments of a command. It is used again and again, and remembers the
// values of the last time: the same key, token or TTL need not be put into an interface again,
// which would allocate. The first place of what goes to session.eval is left for the script.
type arguments struct {
	list            []any
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
	if a.list == nil {
		a.list = make([]any, 0, 28)
	}
}

// plain is what follows SET in the command.
func (a *arguments) plain(l *Lock) []any {
	a.remember(l, l.TTL)
	return append(a.list[:0], a.key, a.token, "NX", "PX", a.ttl)
}

// undoPlain puts the whole command that takes back what plain has laid out into list.
func undoPlain(list []any, key, token any) []any {
	return append(list[:0], "EVAL", Mutex.scripts().release[0].source, 1, key, token, "0", "0", 1, "0", "m", "0", "", "", "")
}

// undo is undoPlain as the value of a ctx, for what plain has laid out last. It lasts until the next one.
func (a *arguments) undo() any {
	list, _ := a.back.([]any)
	a.back = undoPlain(list, a.key, a.token)
	return a.back
}

// head begins the arguments of the scripts of a lock; head.lua says how. counters says whether they get the fence
// counters.
func (a *arguments) head(l *Lock, ms any, due int64, counters, queue, guard bool) []any {
	list := append(a.list[:0], nil, nil, a.key)
	for _, k := range l.More {
		list = append(list, k)
	}
	if counters {
		list = append(list, FenceKey(l.Key))
		for _, k := range l.More {
			list = append(list, FenceKey(k))
		}
	}
	for _, kind := range l.Kind.keys {
		list = append(list, sibling(kind, l.Key))
	}
	if queue {
		list = append(list, QueueKey(l.Key))
	}
	if guard {
		list = append(list, guardKey)
	}
	list[1] = len(list) - 2
	counter := any("0")
	if counters {
		counter = counterFor(l.TTL)
	}
	return append(list, a.token, ms, due, 1+len(l.More), counter, l.Want)
}

// acquire is for acquire.lua.
func (a *arguments) acquire(c *Claim, t *Try, due int64, cluster bool) (script, []any) {
	l := &c.Lock
	a.remember(l, l.TTL)
	list := a.head(l, a.ttl, due, l.fenced(), l.Queue, l.Guard)
	mark, member := "", ""
	if t.Shows > 0 {
		mark = l.mark()
	}
	if t.Queues {
		member = l.member()
	}
	list = append(list, string(l.Fence), flag(l.Guard), mark, max(t.Shows.Milliseconds(), 1))
	if l.Queue || len(t.With) > 0 {
		list = append(list, member, t.Arrived, flag(t.Rejoins), waitersTTL, flag(cluster))
	}
	for _, other := range t.With {
		list = append(list, other.Token)
	}
	return l.Kind.scripts().acquire[queued(l.Queue)], list
}

func flag(b bool) any {
	if b {
		return "1"
	}
	return "0"
}

// release is for release.lua.
func (a *arguments) release(c *Claim, cluster bool) (script, []any) {
	l := &c.Lock
	keep, waits, hides := c.rest()
	a.remember(l, 0)
	ms := any("0")
	if keep > 0 {
		ms = max((keep + time.Millisecond - 1).Milliseconds(), 1)
	}
	list := a.head(l, ms, 0, l.Queue, l.Queue, false)
	mark, member := "", ""
	if waits {
		member = l.member()
	}
	if hides {
		mark = l.mark()
	}
	return l.Kind.scripts().release[queued(l.Queue)], append(list, "0", mark, member, flag(cluster))
}

// extend is for extend.lua.
func (a *arguments) extend(e *Extension, due int64) (script, []any) {
	l := &e.Lock
	a.remember(l, e.TTL)
	mark := ""
	if _, _, hides := e.rest(); hides {
		mark = l.mark()
	}
	return l.Kind.scripts().extend, append(a.head(l, a.ttl, due, l.Fence != NoFence, false, false), "0", mark)
}

// downgrade is for downgrade.lua.
func (a *arguments) downgrade(l *Lock, due int64, cluster bool) (script, []any) {
	a.remember(l, l.TTL)
	list := a.head(l, a.ttl, due, l.fenced(), l.Queue, false)
	return l.Kind.scripts().downgrade[queued(l.Queue)], append(list, "0", flag(cluster))
}

// swap is for swap.lua.
func (a *arguments) swap(l *Lock, old string, due int64) (script, []any) {
	a.remember(l, l.TTL)
	list := a.head(l, a.ttl, due, l.Fence != NoFence, false, l.Guard)
	return swapScript, append(list, string(l.Fence), flag(l.Guard), old)
}

// raise is for raise.lua.
func (a *arguments) raise(l *Lock, fence int64) (script, []any) {
	list := append(a.list[:0], nil, 1+len(l.More), FenceKey(l.Key))
	for _, k := range l.More {
		list = append(list, FenceKey(k))
	}
	return raiseScript, append(list, fence, counterFor(l.TTL))
}

// inUse is for inuse.lua.
func (a *arguments) inUse(l *Lock) (script, []any) {
	a.remember(l, l.TTL)
	return l.Kind.scripts().inUse, a.head(l, a.ttl, 0, false, false, false)
}
