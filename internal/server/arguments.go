package server

import "time"

const (
	// fenceTTL is how long a fence counter outlives the last lease. It begins when the server's clock has passed the fence,
	// because a counter that has expired starts again from that clock.
	fenceTTL = time.Hour
	QueueTTL = 30 * time.Second   // how long a queue outlives the last look of a waiter; live waiters look every second
	guardKey = reserved + "guard" // marks a server that has kept its data
)

// arguments lays out the arguments of commands, one command after the other. It keeps the interfaces of the last command:
// an equal key, token or TTL is not put into an interface again, which would allocate.
type arguments struct {
	list                  []any
	key, token, ttl, want any
	back                  any // a []any: see undo
}

// remember puts what most commands carry into interfaces. A release carries no TTL: that of the last try is kept for the next.
func (a *arguments) remember(l *Lock, ttl time.Duration) {
	box(&a.key, l.Key)
	box(&a.token, l.Token)
	box(&a.want, l.Want)
	if ttl > 0 {
		box(&a.ttl, ttl.Milliseconds())
	}
	if a.list == nil {
		a.list, a.back = make([]any, 0, 28), make([]any, 5)
	}
}

// box puts a value into an interface, unless it is there already.
func box[T comparable](place *any, value T) {
	if was, ok := (*place).(T); !ok || was != value {
		*place = value
	}
}

// plain returns the arguments of a SET NX PX.
func (a *arguments) plain(l *Lock) []any {
	a.remember(l, l.TTL)
	return append(a.list[:0], a.key, a.token, "NX", "PX", a.ttl)
}

// undo returns the whole command that undoes the SET of the last call of plain. It is valid until the next call of plain.
func (a *arguments) undo() any {
	copy(a.back.([]any), []any{"EVAL", Mutex.scripts[release][false]().source, 1, a.key, a.token})
	return a.back
}

var flag = map[bool]any{false: "0", true: "1"}

// queueTTL is 0 for a waiter that polls: it takes no place in the queue, and leaves one that it may have (see acquire.lua).
var queueTTL = map[bool]any{false: QueueTTL.Milliseconds(), true: 0}

var usual = [...]any{1, "0", "0", "", "", "0", "0"} // the usual values of ARGV[5] to ARGV[11]: see head.lua

// lay returns the script of a request, and what follows the script in the command: the number of keys, the keys and the
// arguments, as head.lua lists them. The first place of the list is left free for the script.
func (op *operation) lay(r *request) (script, []any) {
	a, l, t := &op.args, &r.claim.Lock, &op.try
	a.remember(l, r.ttl)
	s := l.Kind.scripts[op.verb][l.Queue]()
	ms, due, counter, fence, mark, member := a.ttl, any("0"), any("0"), any("0"), "", ""
	list := append(a.list[:0], nil, 1+len(l.More), a.key)
	for _, k := range l.More {
		list = append(list, k)
	}
	if verbs[op.verb].timed {
		due, _ = op.server.nodes.at(l.Key).clock.at(op.due)
	}
	switch v := op.verb; {
	case t.Regains: // the lock has its fence already
	case v == acquire, v == swap:
		fence = string(l.Fence)
		if t.Shows > 0 {
			mark = l.mark()
		}
		if t.Queues || t.Polls {
			member = l.member()
		}
	case v == extend, v == downgrade:
		_, mark, _ = r.claim.toRelease()
	case v == raise:
		fence = op.fence
	case v == release:
		var keep time.Duration
		keep, mark, member = r.claim.toRelease()
		ms = "0"
		if keep > 0 {
			ms = max((keep + time.Millisecond - 1).Milliseconds(), 1)
		} else if l.Kind.plain && !l.Queue && len(l.More) < 100 { // see simple.lua; Lua has no room for more keys
			return s, append(list, a.token)
		}
	}
	if l.fenced() || op.verb == raise {
		counter = (max(l.TTL, r.ttl) + fenceTTL).Milliseconds()
		for k := range l.Keys {
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
	guarded, first := l.Guard && (op.verb == acquire || op.verb == swap), len(list)+4 // first: the first argument that may be left out
	list = append(list, a.token, ms, due, a.want, 1+len(l.More), counter, fence, mark, member, flag[op.server.nodes.cluster.Load()], flag[guarded])
	switch {
	case op.verb == swap:
		list = append(list, flag[t.KeepsTTL])
		for _, old := range t.Olds {
			list = append(list, old)
		}
	case op.verb == acquire && (mark != "" || member != "" || len(t.With) > 0):
		list = append(list, max(t.Shows.Milliseconds(), 1), t.Arrived, flag[t.Rejoins], queueTTL[t.Polls])
	}
	for _, other := range t.With {
		list = append(list, other.Token)
	}
	for n := len(list) - first; n > 0 && n <= len(usual) && list[first+n-1] == usual[n-1]; n-- {
		list = list[:first+n-1]
	}
	return s, list
}
