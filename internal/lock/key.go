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

// A line says whose goroutines stand in line for each other: those that exclude each other on the same keys, and those
// that share one. A Mutex and the writer of an RWMutex are one. It is the key; or, of several keys or of a kind that many
// may hold, a name that no key has.
type line string

func lineOf(kind *server.Kind, key string, more ...string) line {
	if len(more) == 0 && !kind.Shared {
		return line(key)
	}
	name := []byte("redimutex:") // no key begins so: see server.Reserved
	if kind.Shared {
		name = append(name, kind.Name...)
	}
	for _, k := range append([]string{key}, more...) { // each behind its length: a key may have any bytes
		name = strconv.AppendInt(append(name, ' '), int64(len(k)), 10)
		name = append(append(name, ':'), k...)
	}
	return line(name)
}

// A Key is one line in this process: its goroutines in order, and what they leave for each other.
type Key struct {
	engine  *Engine
	line    line
	last    atomic.Pointer[server.Lock] // what a call with the turn has last asked the servers for; nil before that
	fifo    fifo.Line
	refs    atomic.Int32 // holds, waiters and what is parked; from 0 it only rises under Engine.mu
	refused atomic.Bool  // the servers have refused a call, and others wait: a single try of a Shared kind does not overtake

	grant   atomic.Pointer[Grant]          // that this process has, until its release begins
	failure atomic.Pointer[quorum.Failure] // of the last try; nil after a good one
	asked   atomic.Int64                   // when the try began that has no answer, as server.Monotonic; 0: none

	left *left // belongs to the turn; apart, because a process may hold very many locks
}

// A left is what a call that waited leaves to the next in line.
type left struct {
	pause  time.Duration // no waiter tries before this, as server.Monotonic; 0: none has waited
	spares []*Grant      // what a try has won for those behind its call in line
	bid    bid           // of a call that has given up
}

var nothing = new(left)

// leave returns what is left for the next in line, for the caller to change it. The caller has the turn.
func (k *Key) leave() *left {
	if k.left == nothing {
		k.left = new(left)
	}
	return k.left
}

// A bid is what a line has at the servers and has not won yet. It belongs to the turn: a call that gives up leaves it, and
// the next one goes on with it. So the place in the queue is kept, and so is a try that is under way.
type bid struct {
	grant   *Grant               // of the next try; nil: a new one
	group   []*Grant             // for others of this line, who enter with it
	ticket  *ticket              // our place in the server's queue; nil without one
	arrived int64                // when we came there, by the first answer of the server, whose clock it is, in µs; 0: no answer yet
	wait    time.Duration        // of a kind that Shows: the wait after the next answer; the mark of that try lasts as long
	answer  chan *quorum.Failure // to a try that is under way, and does not end with the call; nil: there is none
	cut     context.CancelFunc   // ends that try
}

// inherit goes on with what is left for the caller, who has the turn: a spare, which is the lock, or a bid. It reports a spare.
func (a *acquisition) inherit() (won bool) {
	l := a.key.left
	for i, g := range l.spares {
		if *g.terms() == *a.Terms && g.votes.Begin(g.votes.Until()) {
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

// replace goes on with another token, which has no ticket. The place in the queue stays.
func (a *acquisition) replace() {
	a.bid.drop()
	a.grant = a.key.newGrant(&a.Call)
}

// drop gives up all but the place, and the time to the next try.
func (b *bid) drop() {
	if b.ticket != nil {
		b.ticket.waiter.Leave()
	}
	if b.answer != nil {
		b.cut()
		<-b.answer // at once: the release of a try that was cut goes before the next try
	}
	if b.grant != nil {
		b.group = append(b.group, b.grant)
	}
	if len(b.group) > 0 { // else nothing is allocated
		quorum.Drop(votes(b.group)...)
	}
	*b = bid{arrived: b.arrived, wait: b.wait}
}

// ref returns the Key of a call, for a caller who has to unref it; or nil if the Engine is closed.
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

// answered notes the outcome of a try: nil, or why it has failed. The caller has the turn.
func (k *Key) answered(f *quorum.Failure) {
	k.failure.Store(f)
	k.asked.Store(0)
}

// known returns why a caller can't have the lock now, as far as this process knows: a hold of its own that excludes others,
// the answer to the last try, or a try without an answer for longer than silence. Nil: it knows of nothing.
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

// inTheWay returns what stands in the way of a call that does not have the turn: at least, that another call has it.
func (k *Key) inTheWay(silence time.Duration) *quorum.Failure {
	return cmp.Or(k.known(silence), &quorum.Failure{Kind: quorum.Contended})
}

// makeWay releases what this process has parked of the keys of a lock, in lines other than its own: for a lock of several
// keys, or of another kind. The try waits for these releases.
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

// pass gives the turn to the next goroutine. If there is none, what is left for it is given back and forgotten: so nothing is
// left where the turn is free.
func (k *Key) pass() {
	for !k.fifo.Pass() {
		k.giveBack()
		k.forget()
		if k.fifo.TryRelease() { // else one has come meanwhile
			return
		}
	}
}

// forget drops what the goroutines of this line were told: it is of no use to one that comes later. The caller has the turn.
func (k *Key) forget() {
	k.refused.Store(k.refused.Load() && k.fifo.Waiting() > 0)
	if k.left != nothing {
		k.left.pause = 0
	}
	k.answered(nil)
}

// giveBack releases all that is left, together: after Close each release may last a node timeout. The caller has the turn.
func (k *Key) giveBack() {
	if l := k.left; l != nothing {
		l.bid.group, l.spares = append(l.bid.group, l.spares...), nil
		l.bid.drop()
	}
}
