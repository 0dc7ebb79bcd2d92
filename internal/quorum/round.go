package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// A round is one operation on all servers at once. Every server has a goroutine, which reports
// when it is through; the caller waits until the reports decide the matter, and no longer. What
// reports after that learns that it is late, and cleans up after itself.
//
// Invariant: an acquisition is accounted for exactly once, by the caller if it was reported in
// time, else by its own goroutine.
type round struct {
	req   server.Request
	undo  bool // what is done late has to be undone
	home  *Quorum
	timer *time.Timer
	wake  chan struct{} // the matter is decided

	mu   sync.Mutex
	over bool // the caller has gone: late reports are on their own
	votes
}

// freshRound makes a round when none is left of earlier operations. Rounds stay with their Quorum:
// shared by all, a timer or channel made in a testing/synctest bubble could turn up outside of it.
func (q *Quorum) freshRound() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &round{home: q, timer: t, wake: make(chan struct{}, 1)}
}

func (q *Quorum) newRound(req *server.Request, undo bool) *round {
	r := q.rounds.Get().(*round)
	r.req, r.undo, r.over = *req, undo, false
	r.reset(len(q.nodes))
	select {
	case <-r.wake:
	default:
	}
	return r
}

// close ends the caller's interest in the round, which it has locked: late reports are on their
// own. A round that everybody has reported to is kept for the next operation.
func (r *round) close() {
	r.over = true
	idle := r.flying == 0
	r.mu.Unlock()
	if idle {
		r.req = server.Request{}
		r.home.rounds.Put(r)
	}
}

// report hands in the reply of server i. late means that nobody will look at it.
func (r *round) report(i int, reply server.Reply) (late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cast(i, reply)
	if !r.over && r.decided() {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	return r.over
}

// each asks every server but the absent, on a goroutine of its own.
func (q *Quorum) each(r *round, absent []error, op func(*node, *server.Request) server.Reply) {
	for i, n := range q.nodes {
		if absent != nil && absent[i] != nil {
			r.report(i, server.Reply{Err: absent[i]})
			continue
		}
		go r.ask(i, n, op)
	}
}

func (r *round) ask(i int, n *node, op func(*node, *server.Request) server.Reply) {
	reply := n.track(op, &r.req)
	undo := r.undo && reply.Verdict == server.Done
	if late := r.report(i, reply); late && undo {
		n.Sweep(&r.req)
	}
}

// await returns when the round is decided, when ctx ends, or when the servers have used up their time.
func (r *round) await(ctx context.Context) {
	// A server that times out says so itself, in better words; the timer is for a pool that hangs.
	r.timer.Reset(r.req.Timeout + r.req.ReplicaTimeout + r.req.Timeout/8)
	defer r.timer.Stop()
	select {
	case <-r.wake:
	case <-r.timer.C:
	case <-ctx.Done():
	}
}
