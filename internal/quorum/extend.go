package quorum

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// An Extension is one lease to extend.
type Extension struct {
	server.Extension
	Done func(Extended) // called once, as soon as this lease is decided, on any goroutine
	// Regain is called for each server that has lost the lock, if a majority has extended it; see regain.go. It
	// may be nil.
	Regain func(i int) (t *server.Try, fence int64)
	Won    Grant // as Acquire has returned it; a server that may undo it yet has no vote
}

// Extended is what came of an Extension.
type Extended struct {
	Failure *Failure  // nil: extended
	Until   time.Time // valid until
}

// Extend extends leases, many in one round trip to each server. A lease is extended when a majority
// of the servers has extended it, whatever becomes of the others in the batch. Extend returns when all
// are decided, or when ctx ends.
func (q *Quorum) Extend(ctx context.Context, batch []*Extension) {
	if len(batch) == 0 {
		return
	}
	q.enter()
	defer q.leave()
	if n := q.single(); n != nil {
		n.extend(ctx, batch)
		return
	}
	bound := time.Duration(0)
	for _, x := range batch {
		bound = max(bound, x.Timeout+x.Replicas.Timeout)
	}
	r := q.newRound(ctx, len(batch), bound)
	r.ask, r.undecided, r.told = (*round).extendAt, len(batch), make(chan struct{})
	r.batch = append(r.batch, batch...)
	for _, x := range batch {
		lease := x.Extension
		lease.Start = r.began
		r.leases = append(r.leases, lease)
	}
	for k := range r.leases {
		r.all = append(r.all, &r.leases[k])
	}
	r.start()
	r.await(ctx)
	r.finish()
}

// extend is Extend where this is the only server.
func (n *node) extend(ctx context.Context, batch []*Extension) {
	leases := make([]*server.Extension, len(batch))
	for k, x := range batch {
		leases[k] = &x.Extension
	}
	n.Extend(ctx, leases, func(k int, reply server.Reply) {
		n.count(ctx, reply)
		x := batch[k]
		if reply.Verdict == server.Done {
			x.Done(Extended{Until: reply.Sent.Add(x.TTL - Drift(x.TTL))})
			return
		}
		x.Done(Extended{Failure: one(reply).ended()})
	})
}

// extendAt asks server i for the whole batch, or for what is undecided if it was skipped at first.
func (r *round) extendAt(i int) {
	n := r.home.nodes[i]
	batch, index := r.all, []int(nil)
	r.mu.Lock()
	if r.seats[i].state == askedLate {
		batch = nil
		for k := range r.votes {
			if r.votes[k].told {
				continue
			}
			batch, index = append(batch, r.all[k]), append(index, k)
		}
	}
	r.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	began := n.begin()
	var heard atomic.Bool
	var gone missing
	n.Extend(r.ctx, batch, func(k int, reply server.Reply) {
		n.count(r.ctx, reply)
		if !server.TimedOut(reply.Err) {
			heard.Store(true)
		}
		if index != nil {
			k = index[k]
		}
		if reply.Verdict == server.Missing && r.batch[k].Regain != nil {
			gone.add(k)
		}
		r.reportLease(i, k, reply)
	})
	n.end(began, heard.Load())
	r.regain(i, gone.leases)
}

// reportLease hands in the reply of server i about lease k, and tells its outcome if it is decided now.
func (r *round) reportLease(i, k int, reply server.Reply) {
	r.mu.Lock()
	v, x := &r.votes[k], r.batch[k]
	if v.told {
		r.mu.Unlock()
		return
	}
	if reply.Verdict == server.Done && x.Won.suspect(i) {
		reply = server.Reply{Err: errUndone}
	}
	v.cast(i, reply)
	if !v.decided() {
		r.look(v)
		r.mu.Unlock()
		return
	}
	outcome := r.decide(k)
	r.mu.Unlock()
	x.Done(outcome)
	r.mu.Lock()
	if r.undecided--; r.undecided == 0 {
		r.signal()
	}
	r.mu.Unlock()
}

// decide ends the vote about lease k. The caller holds r.mu.
func (r *round) decide(k int) Extended {
	v := &r.votes[k]
	v.told = true
	out := Extended{Failure: v.ended()}
	if out.Failure == nil {
		out.Until, _ = v.lease(r.leases[k].TTL)
	}
	return out
}

// finish tells the outcome of the leases that time has decided, and returns when all are told.
func (r *round) finish() {
	r.mu.Lock()
	r.end = dropped
	for k := range r.votes {
		if r.votes[k].told {
			continue
		}
		x, outcome := r.batch[k], r.decide(k)
		r.mu.Unlock()
		x.Done(outcome)
		r.mu.Lock()
		r.undecided--
	}
	for r.undecided > 0 { // somebody is in a Done
		r.mu.Unlock()
		<-r.wake
		r.mu.Lock()
	}
	close(r.told)
	r.mu.Unlock()
}
