package lock

import (
	"context"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/fifo"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A line says whose goroutines stand in line for each other: those that exclude each other on the same keys, and those
// that share one. A Mutex and the writer of an RWMutex are one.
type line struct {
	key  string
	more string       // further keys, quoted: a key may have any bytes
	kind *server.Kind // nil: exclusive
}

// lineOf returns the line of a lock.
func lineOf(t *Terms, key string, more []string) line {
	l := line{key: key}
	if t.Kind.Shared {
		l.kind = t.Kind
	}
	for _, k := range more {
		l.more += strconv.Quote(k)
	}
	return l
}

// keys returns the keys of a line.
func (l line) keys() []string {
	keys := []string{l.key}
	for rest := l.more; rest != ""; {
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
	fifo   fifo.Line
	unseen atomic.Int32 // how many wait in line that show themselves to no other process: a Mutex among writers
	// refused says, in a line of those that may hold the lock together, that the one with the turn waits for its next try.
	refused atomic.Bool
	refs    atomic.Int32 // holds, waiters and what is parked or still released; from 0 it only rises under Engine.mu

	// parked is what the last hold has left. Swap transfers ownership: the caller must use the grant or release it. A
	// shared one stays here while it is used, too.
	parked  atomic.Pointer[Grant]
	before  quorum.Before
	failure atomic.Pointer[quorum.Failure] // of the last try; nil after a good one
	asks    atomic.Pointer[server.Kind]    // of the last try
	grant   atomic.Pointer[Grant]          // that this process has, until its release begins; tells others who holds the lock

	// These belong to the turn.
	pause time.Time // no waiter tries before this
	gifts []gift    // what a try has won for others in line
}

// ref returns the Key of a line, for a caller who has to unref it; or nil if the Engine is closed. hint is
// nil, or the Key that the caller had the last time.
func (e *Engine) ref(l line, hint *Key) *Key {
	if hint != nil && !e.closed.Load() && hint.ref() {
		return hint
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed.Load() {
		return nil
	}
	k := e.keys[l]
	if k == nil {
		k = &Key{engine: e, line: l}
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
	k.before.Add(v)
	claims := v.Claims()
	k.refs.Add(int32(claims))
	for range claims - v.WhenAway(k.unref) {
		k.unref()
	}
}

// others makes way for a lock of several keys, or of another kind, by releasing what this process has parked of its keys.
// It waits until that is done, until due at most.
func (e *Engine) others(ctx context.Context, l *server.Lock, self *Key, due time.Time) {
	names := append([]string{l.Key}, l.More...)
	for _, name := range names {
		for _, kind := range []*server.Kind{nil, server.Reader} {
			e.mu.Lock()
			k := e.keys[line{key: name, kind: kind}]
			e.mu.Unlock()
			if k == nil || k == self {
				continue
			}
			k.clear()
			k.before.Wait(ctx, due)
		}
	}
}

// pass gives the turn to the next goroutine. If there is none, the gifts are returned.
func (k *Key) pass() {
	for {
		if len(k.gifts) > 0 && k.fifo.Waiting() == 0 {
			k.returnGifts()
		}
		left := len(k.gifts) > 0
		if k.fifo.Release() {
			return
		}
		k.tidy()
		if !left || !k.fifo.TryAcquire() { // else those who waited have left just now
			return
		}
	}
}

// cancel ends the waiting of w, which may have the turn already.
func (k *Key) cancel(w *fifo.Waiter) {
	if !w.Cancel() {
		return
	}
	k.tidy()
	if k.line.kind == server.Reader && k.fifo.TryAcquire() {
		k.pass() // the gift of w, if there was one
	}
}

// tidy releases what must not stay while no goroutine has the turn: a grant whose time is over.
func (k *Key) tidy() {
	if g := k.parked.Load(); g != nil && g.spent() {
		g.unpark()
	}
}

// clear releases whatever is parked.
func (k *Key) clear() {
	if g := k.parked.Load(); g != nil {
		g.expire()
	}
}
