package lock

import (
	"cmp"
	"context"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/fifo"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A line names the calls of this process that wait for each other: they exclude each other on the same keys, or share a key. A
// Mutex and the writer of an RWMutex are in the same line. Its name is the key. For several keys, or for a kind that many may
// hold, it is a name that no key has.
type line string

func lineOf(kind *server.Kind, key string, more ...string) line {
	if len(more) == 0 && !kind.Shared {
		return line(key)
	}
	name := []byte("redimutex:") // no key begins like this: see server.Reserved
	if kind.Shared {
		name = append(name, kind.Name...)
	}
	for _, k := range append([]string{key}, more...) { // each after its length, because a key may contain any bytes
		name = strconv.AppendInt(append(name, ' '), int64(len(k)), 10)
		name = append(append(name, ':'), k...)
	}
	return line(name)
}

// A Key is one line in this process: its goroutines in order, and what they leave for each other.
type Key struct {
	engine  *Engine
	line    line
	last    atomic.Pointer[server.Lock] // what a call with the turn last asked the servers for; nil: nothing yet
	fifo    fifo.Line
	refs    atomic.Int32 // grants not yet released, and calls under way; it rises from 0 only under Engine.mu
	refused atomic.Bool  // the servers have refused a call, and calls wait: a single try of a Shared kind does not overtake them

	grant   atomic.Pointer[Grant]          // the grant that this process has, until its release begins
	failure atomic.Pointer[quorum.Failure] // why the last try failed; nil after a good one
	asked   atomic.Int64                   // when the unanswered try began, as server.Monotonic; 0: there is none

	left *leftovers // belongs to the turn; a pointer, because a process may hold very many locks
}

// leftovers are what a call that waited leaves to the next call in line. They belong to the turn.
type leftovers struct {
	pause  time.Duration // no waiter tries before this time, as server.Monotonic; 0: no call has waited
	spares []*Grant      // grants that a try has won for calls behind its own in line
	bid    bid           // the bid of a call that has given up
}

var nothing = new(leftovers)

// leave returns what is left for the next call in line, ready for changes. The caller has the turn.
func (k *Key) leave() *leftovers {
	if k.left == nothing {
		k.left = new(leftovers)
	}
	return k.left
}

// A bid is what a line has on the servers before it wins. It belongs to the turn: a call that gives up leaves its bid, and the
// next call goes on with it. So the line keeps its place in the queue, and a try that is under way.
type bid struct {
	grant   *Grant               // for the next try; nil: a new one is made
	group   []*Grant             // for other calls of this line, which enter with it
	ticket  *ticket              // the place in the server's queue; nil: none
	arrived int64                // when the waiter arrived, by the server's clock in µs, from its first answer; 0: no answer yet
	wait    time.Duration        // for a kind that Shows: the wait after the next try; the mark of that try lasts as long
	answer  chan *quorum.Failure // gets the answer to a try that does not end with the call; nil: no such try is under way
	cut     context.CancelFunc   // cuts that try short
}

// inherit takes over what an earlier call left: a spare, which is the lock (won), or a bid. The call has the turn.
func (a *acquisition) inherit() (won bool) {
	l := a.key.left
	for i, g := range l.spares {
		if *g.terms() == *a.Terms && g.votes.MarkGranted(g.votes.Until()) {
			a.grant, l.spares = g, append(l.spares[:i], l.spares[i+1:]...)
			return true
		}
	}
	if l.bid.grant != nil {
		a.bid, l.bid = l.bid, bid{}
		a.wait = min(a.wait, a.pause(1))
		if *a.grant.terms() != *a.Terms {
			a.replace()
		}
	}
	return false
}

// replace goes on with a new token, which has no ticket yet. The place in the queue is kept.
func (a *acquisition) replace() {
	a.bid.drop()
	a.grant = a.key.newGrant(&a.Call)
}

// drop gives up everything but the place in the queue and the wait before the next try.
func (b *bid) drop() {
	if b.ticket != nil {
		b.ticket.waiter.Leave()
	}
	if b.answer != nil {
		b.cut()
		<-b.answer // comes at once; the release of the cut try must go before the next try
	}
	if b.grant != nil {
		b.group = append(b.group, b.grant)
	}
	if len(b.group) > 0 { // an empty group must not cost an allocation
		quorum.Drop(votes(b.group)...)
	}
	*b = bid{arrived: b.arrived, wait: b.wait}
}

// ref returns the Key of a call, or nil if the Engine is closed. The caller must unref it.
func (e *Engine) ref(c *Call) *Key {
	l := lineOf(c.Terms.Kind, c.Key, c.More...)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing.Err() != nil {
		return nil
	}
	k := e.keys[l]
	if k == nil {
		k = &Key{engine: e, line: l, left: nothing}
		e.keys[l] = k
	}
	k.refs.Add(1)
	return k
}

// unref drops a reference, and forgets the Key with the last one.
func (k *Key) unref() {
	if k.refs.Add(-1) > 0 {
		return
	}
	e := k.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if k.refs.CompareAndSwap(0, math.MinInt32) { // otherwise a new call has come
		delete(e.keys, k.line)
	}
}

// answered records the outcome of a try: nil, or why it failed. The caller has the turn.
func (k *Key) answered(f *quorum.Failure) {
	k.failure.Store(f)
	k.asked.Store(0)
}

// known returns why a caller can't have the lock now, as far as this process knows: a grant of its own excludes others, the
// last try failed, or a try has had no answer for longer than silence. It returns nil if it knows no reason.
func (k *Key) known(silence time.Duration) *quorum.Failure {
	if g := k.grant.Load(); g != nil && !g.terms().Kind.Shared {
		return &quorum.Failure{Kind: quorum.Contended, Reply: server.Reply{Holder: g.Token()}}
	}
	f, asked := k.failure.Load(), time.Duration(k.asked.Load())
	if f == nil && asked > 0 && server.Monotonic()-asked > silence {
		return k.engine.quorum.Unanswered()
	}
	return f
}

// inTheWay returns why a call without the turn can't have the lock. At least, another call has the turn.
func (k *Key) inTheWay(silence time.Duration) *quorum.Failure {
	return cmp.Or(k.known(silence), &quorum.Failure{Kind: quorum.Contended})
}

// makeWay releases what this process has parked on the keys of l in lines other than self. There is such a line if l has
// several keys, or if the parked grant is of another kind. The try waits for these releases.
func (e *Engine) makeWay(l *server.Lock, self *Key) {
	var found []*Key
	e.mu.Lock()
	for name := range l.Keys {
		for _, kind := range []*server.Kind{server.Mutex, server.Reader} {
			if k := e.keys[lineOf(kind, name)]; k != nil && k != self {
				found = append(found, k)
			}
		}
	}
	e.mu.Unlock()
	for _, k := range found {
		if g := k.grant.Load(); g != nil && g.reuse != nil {
			g.expire()
		}
	}
}

// pass gives the turn to the next goroutine. If none waits, it releases what was left: nothing is left while the turn is free.
func (k *Key) pass() {
	for !k.fifo.Pass() {
		k.giveBack()
		k.forget()
		if k.fifo.TryRelease() { // otherwise a goroutine has come in the meantime
			return
		}
	}
}

// forget drops what this line was told. A call that comes later has no use for it. The caller has the turn.
func (k *Key) forget() {
	k.refused.Store(k.refused.Load() && k.fifo.Waiting() > 0)
	if k.left != nothing {
		k.left.pause = 0
	}
	k.answered(nil)
}

// giveBack releases all that is left in one call: after Close each release may last a node timeout. The caller has the turn.
func (k *Key) giveBack() {
	if l := k.left; l != nothing {
		l.bid.group, l.spares = append(l.bid.group, l.spares...), nil
		l.bid.drop()
	}
}
