package lock

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/fifo"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A line says whose goroutines stand in line for each other: those that exclude each other on the same keys, and those
// that share one. A Mutex and the writer of an RWMutex are one. It is the key; or, of several keys or of a kind that many
// may hold, a name that no key has.
type line string

// composed begins the names that no key has: see server.Reserved.
const composed = "redimutex:"

// lineOf returns the line of a lock.
func lineOf(kind *server.Kind, keys ...string) line {
	if len(keys) == 1 && !kind.Shared {
		return line(keys[0])
	}
	name := []byte(composed)
	if kind.Shared {
		name = append(name, kind.Name...)
	}
	for _, k := range keys {
		name = strconv.AppendQuote(name, k) // a key may have any bytes
	}
	return line(name)
}

// keys returns the keys of a line.
func (l line) keys() (keys []string) {
	rest, several := strings.CutPrefix(string(l), composed)
	if !several {
		return []string{rest}
	}
	for rest = rest[strings.IndexByte(rest, '"'):]; rest != ""; {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			break // lineOf has written it
		}
		k, _ := strconv.Unquote(quoted)
		keys, rest = append(keys, k), rest[len(quoted):]
	}
	return keys
}

// A Key is one line in this process: its goroutines in order, and what they leave for each other.
type Key struct {
	engine *Engine
	line   line
	kind   atomic.Pointer[server.Kind] // of the last try
	fifo   fifo.Line
	unseen atomic.Int32 // how many wait in line that show themselves to no other process: a Mutex among writers
	// refused says, in a line of those that may hold the lock together, that the one with the turn waits for its next try.
	refused atomic.Bool
	refs    atomic.Int32 // holds, waiters and what is parked or still released; from 0 it only rises under Engine.mu

	grant   atomic.Pointer[Grant] // that this process has, until its release begins
	before  quorum.Before
	failure atomic.Pointer[quorum.Failure] // of the last try; nil after a good one

	// These belong to the turn.
	pause time.Duration // no waiter tries before this, since the Engine was made
	gifts []*Grant      // what a try has won for others in line
}

// ref returns the Key of a line, for a caller who has to unref it; or nil if the Engine is closed. hint is
// nil, or the Key that the caller had the last time.
func (e *Engine) ref(c *Call) *Key {
	if c.Hint != nil && !e.closed.Load() && c.Hint.ref() {
		return c.Hint
	}
	l := line(c.Key)
	if len(c.More) > 0 || c.Terms.Kind.Shared {
		l = lineOf(c.Terms.Kind, append([]string{c.Key}, c.More...)...)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed.Load() {
		return nil
	}
	k := e.keys[l]
	if k == nil {
		k = &Key{engine: e, line: l}
		k.kind.Store(c.Terms.Kind)
		e.keys[l] = k
	}
	k.refs.Add(1)
	return k
}

// ref refers to a Key to which another caller does too.
func (k *Key) ref() bool {
	for {
		n := k.refs.Load()
		if n <= 0 {
			return false
		}
		if k.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// unref forgets the Key when it is not needed any more.
func (k *Key) unref() {
	if k.refs.Add(-1) > 0 {
		return
	}
	e := k.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if k.refs.CompareAndSwap(0, math.MinInt32) { // else there is a new caller
		delete(e.keys, k.line)
	}
}

// shared reports whether many of the line may have the lock at a time.
func (k *Key) shared() bool { return k.kind.Load().Shared }

// inTheWay returns what keeps others of this process from the lock, as far as it is known: the hold of one of them, or
// what the servers have said to the last try.
func (k *Key) inTheWay() *quorum.Failure {
	if g := k.grant.Load(); g != nil {
		return &quorum.Failure{Kind: quorum.Contended, Holder: g.Token()}
	}
	return k.failure.Load()
}

// follow keeps what is still being released for the next caller, who waits for it. The caller refers to the Key.
func (k *Key) follow(v *quorum.Votes) {
	if !v.Any(func(c *server.Claim) bool { return c.Away() != nil }) {
		return
	}
	n := v.Size()
	k.refs.Add(int32(n))
	for range n - k.before.Add(v, k.unref) {
		k.unref()
	}
}

// others makes way for a lock of several keys, or of another kind, by releasing what this process has parked of its keys.
// It waits until that is done, until due at most.
func (e *Engine) others(ctx context.Context, l *server.Lock, self *Key, due time.Time) {
	var found []*Key
	e.mu.Lock()
	for _, name := range append([]string{l.Key}, l.More...) {
		for _, kind := range []*server.Kind{server.Mutex, server.Reader} {
			if k := e.keys[lineOf(kind, name)]; k != nil && k != self {
				found = append(found, k)
			}
		}
	}
	e.mu.Unlock()
	for _, k := range found {
		k.clear()
		k.before.Wait(ctx, due)
	}
}

// clear releases what is parked.
func (k *Key) clear() {
	if g := k.grant.Load(); g != nil && g.reuse != nil {
		g.expire()
	}
}
