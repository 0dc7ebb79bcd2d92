package server

import "sync"

// Arguments lays out the arguments of a command. It is used again and again, and remembers the
// values of the last time: the same key, token or TTL need not be put into an interface again,
// which would allocate.
type arguments struct {
	list            [16]any
	key, token, ttl any
}

var argumentsPool = sync.Pool{New: func() any { return new(arguments) }}

func newArguments() *arguments { return argumentsPool.Get().(*arguments) }

func (a *arguments) free() { argumentsPool.Put(a) }

// remember puts the terms of r into interfaces, unless they are what they were.
func (a *arguments) remember(r *Request) {
	if k, _ := a.key.(string); k != r.Key {
		a.key = r.Key
	}
	if t, _ := a.token.(string); t != r.Token {
		a.token = r.Token
	}
	if ms, _ := a.ttl.(int64); ms != r.TTL.Milliseconds() {
		a.ttl = r.TTL.Milliseconds()
	}
}

// plain is what follows SET in the command.
func (a *arguments) plain(r *Request) []any {
	a.remember(r)
	return append(a.list[:0], a.key, a.token, "NX", "PX", a.ttl)
}

// undo is the whole command that takes back what plain has done. It stands behind that in the list.
func (a *arguments) undo() []any {
	return append(a.list[8:8], "EVAL", releaseScript.source, 1, a.key, a.token)
}

// acquire is what follows EVALSHA for acquire.lua. Its first place is left for the script, as in all
// that go to session.eval.
func (a *arguments) acquire(r *Request, due int64) []any {
	a.remember(r)
	list := append(a.list[:0], nil, nil, a.key)
	counterTTL := any("0")
	if r.Fencing {
		list = append(list, FenceKey(r.Key))
		counterTTL = (r.TTL + fenceTTL).Milliseconds()
	}
	guard := any("0")
	if r.Guard {
		list = append(list, guardKey)
		guard = "1"
	}
	list[1] = len(list) - 2
	return append(list, a.token, a.ttl, due, counterTTL, guard)
}

// release is what follows EVALSHA for release.lua, or for retain.lua.
func (a *arguments) release(r *Request) []any {
	a.remember(r)
	list := append(a.list[:0], nil, 1, a.key, a.token)
	if r.Keep > 0 {
		list = append(list, r.Keep.Milliseconds())
	}
	return list
}
