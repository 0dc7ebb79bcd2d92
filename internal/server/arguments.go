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
	list                  []any
	key, token, ttl, want any
	back                  any // a []any: see undo
}

// remember puts what most commands have into interfaces, unless it is what it was. A release has no TTL, and leaves that
// of the next try in its place.
func (a *arguments) remember(l *Lock, ttl time.Duration) {
	remember(&a.key, l.Key)
	remember(&a.token, l.Token)
	remember(&a.want, l.Want)
	if ttl > 0 {
		remember(&a.ttl, ttl.Milliseconds())
	}
	if a.list == nil {
		a.list = make([]any, 0, 28)
	}
}

func remember[T comparable](place *any, value T) {
	if was, ok := (*place).(T); !ok || was != value {
		*place = value
	}
}

// plain is what follows SET in the command.
func (a *arguments) plain(l *Lock) []any {
	a.remember(l, l.TTL)
	return append(a.list[:0], a.key, a.token, "NX", "PX", a.ttl)
}

// undo is the whole command that takes back what plain has laid out last. It lasts until the next one.
func (a *arguments) undo() any {
	list, _ := a.back.([]any)
	if list == nil {
		list = make([]any, 5)
		a.back = list
	}
	list[0], list[1], list[2], list[3], list[4] = "EVAL", Mutex.scripts().release[false].source, 1, a.key, a.token
	return a.back
}

// head begins the arguments of all scripts of a lock; head.lua says how. ms is a TTL, due the deadline on the server's
// clock.
func (a *arguments) head(l *Lock, ms any, due int64, fence any, mark, member string, cluster bool) []any {
	list := append(a.list[:0], nil, nil, a.key)
	for _, k := range l.More {
		list = append(list, k)
	}
	counter := any("0")
	if l.fenced() {
		counter = counterFor(l.TTL)
		list = append(list, FenceKey(l.Key))
		for _, k := range l.More {
			list = append(list, FenceKey(k))
		}
	}
	for _, kind := range l.Kind.keys {
		list = append(list, sibling(kind, l.Key))
	}
	if l.Queue {
		list = append(list, QueueKey(l.Key))
	}
	if l.Guard {
		list = append(list, guardKey)
	}
	list[1] = len(list) - 2
	return append(list, a.token, ms, due, 1+len(l.More), counter, a.want, fence, mark, member, flag[cluster])
}

var flag = map[bool]any{false: "0", true: "1"}

// acquire is for acquire.lua.
func (a *arguments) acquire(l *Lock, t *Try, due int64, cluster bool) (script, []any) {
	a.remember(l, l.TTL)
	mark, member := "", ""
	if t.Shows > 0 {
		mark = l.mark()
	}
	if t.Queues {
		member = l.member()
	}
	list := a.head(l, a.ttl, due, string(l.Fence), mark, member, cluster)
	list = append(list, flag[l.Guard], max(t.Shows.Milliseconds(), 1))
	if l.Queue || len(t.With) > 0 {
		list = append(list, t.Arrived, flag[t.Rejoins], waitersTTL)
	}
	for _, other := range t.With {
		list = append(list, other.Token)
	}
	return l.Kind.scripts().acquire[l.Queue], list
}

// swap is for swap.lua, which puts the token into the place of the old one.
func (a *arguments) swap(l *Lock, old string, due int64) (script, []any) {
	a.remember(l, l.TTL)
	return swapScript, append(a.head(l, a.ttl, due, string(l.Fence), "", "", false), flag[l.Guard], old)
}

// downgrade is for downgrade.lua.
func (a *arguments) downgrade(l *Lock, due int64, cluster bool) (script, []any) {
	a.remember(l, l.TTL)
	return l.Kind.scripts().downgrade[l.Queue], a.head(l, a.ttl, due, "0", "", "", cluster)
}

// extend is for extend.lua.
func (a *arguments) extend(e *Extension, due int64) (script, []any) {
	a.remember(&e.Lock, e.TTL)
	_, mark, _ := e.rest()
	return e.Kind.scripts().extend, a.head(&e.Lock, a.ttl, due, "0", mark, "", false)
}

// release is for release.lua.
func (a *arguments) release(c *Claim, cluster bool) (script, []any) {
	a.remember(&c.Lock, 0)
	keep, mark, member := c.rest()
	script, ms := c.Kind.scripts().release[c.Queue], any("0")
	switch {
	case keep > 0:
		ms = max((keep + time.Millisecond - 1).Milliseconds(), 1)
	case c.Kind.plain && !c.Queue && len(c.More) == 0: // see simple.lua
		return script, append(a.list[:0], nil, 1, a.key, a.token)
	}
	return script, a.head(&c.Lock, ms, 0, "0", mark, member, cluster)
}

// inUse is for inuse.lua.
func (a *arguments) inUse(l *Lock) (script, []any) {
	a.remember(l, l.TTL)
	return l.Kind.scripts().inUse, a.head(l, a.ttl, 0, "0", "", "", false)
}

// raise is for raise.lua.
func (a *arguments) raise(l *Lock, fence int64) (script, []any) {
	list := append(a.list[:0], nil, 1+len(l.More), FenceKey(l.Key))
	for _, k := range l.More {
		list = append(list, FenceKey(k))
	}
	return raiseScript, append(list, fence, counterFor(l.TTL))
}
