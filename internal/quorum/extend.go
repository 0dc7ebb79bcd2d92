package quorum

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// An Extension is one lease to extend.
type Extension struct {
	*Votes
	TTL  time.Duration
	Done func(Extended) // called once, as soon as this lease is decided, on any goroutine
}

// Extended is what came of an Extension.
type Extended struct {
	Failure *Failure  // nil: extended
	Until   time.Time // extended: valid until
}

// Extend extends leases with the same bound, many in one round trip to each server. A lease is extended when a majority
// of the servers has extended it, whatever becomes of the others in the batch. Extend returns when all
// are decided, or when ctx ends.
func (q *Quorum) Extend(ctx context.Context, batch []*Extension) {
	if len(batch) == 0 {
		return
	}
	q.Enter()
	defer q.Leave()
	if len(q.nodes) == 1 {
		q.nodes[0].extend(ctx, batch)
		return
	}
	x := &extending{batch: batch, told: make([]bool, len(batch)), undecided: len(batch), over: make(chan struct{})}
	x.round = q.newRound(ctx, len(batch), time.Time{}, batch[0].Lock().Bound())
	x.ask = x.extendAt
	x.run(ctx)
	x.finish()
}

// extend is Extend where this is the only server.
func (n *node) extend(ctx context.Context, batch []*Extension) {
	leases := make([]server.Extension, len(batch))
	for k, x := range batch {
		leases[k] = server.Extension{Claim: &x.first, TTL: x.TTL}
	}
	n.Extend(ctx, time.Now(), leases, func(k int, reply server.Reply) {
		x := batch[k]
		x.Done(Extended{n.outcome(ctx, x.Lock(), reply), reply.Sent.Add(x.TTL - Drift(x.TTL))})
	})
}

// extending is a round about a batch of leases. Its fields are guarded by the mu of the round.
type extending struct {
	*round
	batch     []*Extension
	told      []bool        // whose outcome the caller knows
	undecided int           // leases whose Done has not returned
	over      chan struct{} // closed when all are decided
}

// extendAt asks server i for the whole batch.
func (x *extending) extendAt(i int) {
	n := x.home.nodes[i]
	leases := make([]server.Extension, len(x.batch))
	for k, e := range x.batch {
		leases[k] = server.Extension{Claim: e.claim(i), TTL: e.TTL}
	}
	began := n.begin()
	var heard atomic.Bool
	var mu sync.Mutex
	var missing []int
	n.Extend(x.ctx, x.began, leases, func(k int, reply server.Reply) {
		n.count(x.ctx, reply)
		if !server.TimedOut(reply.Err) {
			heard.Store(true)
		}
		switch {
		case reply.Verdict == server.Missing:
			mu.Lock()
			missing = append(missing, k)
			mu.Unlock()
		case reply.Verdict == server.Done && !leases[k].Wanted():
			reply = server.Reply{Err: errEnded}
		case reply.Verdict == server.Done && leases[k].Unknown():
			// A try without an answer may have taken the lock after a round that was missed, behind another holder.
			reply = server.Reply{Err: errLateTry}
		}
		x.reportLease(i, k, reply)
	})
	n.end(began, heard.Load())
	x.regain(i, missing)
}

// reportLease hands in the reply of server i about lease k, and tells its outcome if it is decided now.
func (x *extending) reportLease(i, k int, reply server.Reply) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.told[k] {
		return
	}
	t := &x.tallies[k]
	t.cast(i, reply)
	if !t.decided() {
		x.look(t)
		return
	}
	x.tell(k)
	if x.undecided == 0 {
		x.signal()
	}
}

// tell tells the outcome of lease k. The caller holds x.mu, which is free in between.
func (x *extending) tell(k int) {
	e, t := x.batch[k], &x.tallies[k]
	x.told[k] = true
	out := Extended{Failure: t.outcome(e.Lock())}
	if out.Failure == nil {
		out.Until, _ = t.lease(e.TTL)
	}
	x.mu.Unlock()
	e.Done(out)
	x.mu.Lock()
	x.undecided--
}

// finish tells the outcome of the leases that time has decided, and returns when all are told.
func (x *extending) finish() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for k := range x.told {
		if !x.told[k] {
			x.tell(k)
		}
	}
	for x.undecided > 0 { // some server's goroutine is in a Done
		x.mu.Unlock()
		<-x.wake
		x.mu.Lock()
	}
	close(x.over)
}

// A server that restarts without its data, or that expired a lock because it could not be reached, has lost its
// vote for the lock. After an extension that a majority has confirmed it is asked for its vote again, by a try like
// any other: with a deadline, behind the restart guard, and for nothing if it has another holder's token. So a lock
// that is held for long outlives servers that restart one after the other.
//
// It is safe because the vote is regained only behind a majority that has confirmed the lock just now: while that
// lasts, no other caller can have one, with or without this server. The regained vote counts only once a later renewal sees
// the token there. After a round that was missed another may hold the lock, so nothing is regained.
//
// It gives up when the server does not answer, or refuses for a reason that concerns all leases, such as that it is a
// replica: the next extension is soon, and a thousand leases must not knock a thousand times.
func (x *extending) regain(i int, leases []int) {
	if len(leases) == 0 {
		return
	}
	<-x.over
	for _, k := range leases {
		if !x.tallies[k].won() {
			continue
		}
		if err := x.home.nodes[i].regain(x.ctx, x.batch[k].Votes, i); err != nil && !server.OfOneLock(err) {
			return
		}
	}
}

// regain asks n to vote again. It is told the fence first: a vote without that might give the next holder a lower one.
func (n *node) regain(ctx context.Context, v *Votes, i int) error {
	c := v.claim(i)
	if c.Unknown() {
		return nil
	}
	if v.Fence > 0 {
		if reply := n.Raise(ctx, &c.Lock, v.Fence, c.Timeout); reply.Verdict != server.Done {
			return reply.Err
		}
	}
	return n.ask(ctx, func() server.Reply { return c.Try(ctx, server.Try{}) }).Err
}
