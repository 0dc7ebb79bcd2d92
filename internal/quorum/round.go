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

	absent []error // why a server is left out; nil where it is not
	op     func(*node, *server.Request) server.Reply

	mu    sync.Mutex
	over  bool // the caller has gone: late reports are on their own
	past  bool // and so is the lock that was won: who gets a place in the queue now has to give it up
	spare int  // how many of the absent can still be asked
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
	r.req, r.undo, r.over, r.past, r.spare = *req, undo, false, false, 0
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
		r.req, r.absent, r.op = server.Request{}, nil, nil
		r.home.rounds.Put(r)
	}
}

// report hands in the reply of server i. late means that nobody will look at it; past is that of r.
func (r *round) report(i int, reply server.Reply) (late, past bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cast(i, reply)
	if !r.over && (r.decided() || r.flying == r.spare) {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	return r.over, r.past
}

// each asks every server but the absent, on a goroutine of its own.
func (q *Quorum) each(r *round, absent []error, op func(*node, *server.Request) server.Reply) {
	r.absent, r.op = absent, op
	for i := range absent {
		if silent(absent[i]) {
			r.spare++
		}
	}
	for i, n := range q.nodes {
		switch {
		case absent == nil || absent[i] == nil:
			go r.ask(i, n, op)
		case !silent(absent[i]):
			r.report(i, server.Reply{Err: absent[i]})
		}
	}
}

func (r *round) ask(i int, n *node, op func(*node, *server.Request) server.Reply) {
	began := n.begin()
	reply := op(n, &r.req)
	n.count(reply)
	// Close waits for the end of the operation, so what is late has to be undone before that.
	defer n.end(began, !server.TimedOut(reply.Err))
	undo := r.undo && reply.Verdict == server.Done
	queued := reply.Verdict == server.Held && r.req.Channel != ""
	if late, past := r.report(i, reply); late && undo || past && queued {
		n.Sweep(&r.req)
	}
}

// await returns when the round is decided, when ctx ends, or when the servers have used up their
// time. It returns those that were left out to the end.
func (r *round) await(ctx context.Context) (absent []error) {
	// A server that times out says so itself, in better words; the timer is for a pool that hangs.
	limit := r.req.Timeout + r.req.ReplicaTimeout + r.req.Timeout/8
	if r.absent != nil {
		if !r.wait(ctx, minSilence) {
			r.each(func(i int) { r.report(i, server.Reply{Err: r.absent[i]}) })
			return r.absent
		}
		// One that was thought to be alive hangs, so those that were thought to hang are needed; often
		// they were but slow for a moment.
		r.each(func(i int) { go r.ask(i, r.home.nodes[i], r.op) })
		limit -= minSilence
	}
	r.wait(ctx, limit)
	return nil
}

// each calls f for the servers that were left out because they are silent, and could be asked.
func (r *round) each(f func(i int)) {
	r.mu.Lock()
	r.spare = 0
	select {
	case <-r.wake: // it may have said that all others have reported, which is not the end now
		if r.decided() {
			r.wake <- struct{}{}
		}
	default:
	}
	r.mu.Unlock()
	for i, err := range r.absent {
		if silent(err) {
			f(i)
		}
	}
}

// wait reports whether d has passed and neither was the round decided nor did ctx end.
func (r *round) wait(ctx context.Context, d time.Duration) bool {
	r.timer.Reset(d)
	defer r.timer.Stop()
	select {
	case <-r.wake:
	case <-ctx.Done():
	case <-r.timer.C:
		return true
	}
	return false
}
