package quorum

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// A Grant is a lock that a majority has given.
type Grant struct {
	At      time.Time     // when it was given
	Valid   time.Duration // from At
	Fence   int64         // 0 without fencing
	*ballot               // nil with a single server
}

// Until returns when the validity ends.
func (g *Grant) Until() time.Time { return g.At.Add(g.Valid) }

// A ballot is what there is to know about the votes of several servers for a Grant.
type ballot struct {
	clean clean     // servers that can vote again
	asked uint64    // servers that were asked for the lock, a bit each
	after *Tail     // of the release before
	late  *round    // tries that were still under way when the majority was reached
	open  time.Time // when they are certainly over
}

// Acquire tries once to take the lock on a majority of the servers. It returns as soon as the matter
// is decided, when ctx ends, or when the time of t is over: all of it takes t.Timeout and
// t.Replicas.Timeout at most, the writing back of the fence included. What a failed try leaves is
// undone in the background. after is what the release before has returned, or nil.
func (q *Quorum) Acquire(ctx context.Context, t *server.Try, after *Tail) (Grant, *Failure) {
	q.enter()
	defer q.leave()
	if q.closing.Load() { // nothing would wait for what it leaves
		return Grant{}, unavailable(len(q.nodes), errClosed)
	}
	if n := q.single(); n != nil {
		if p := after.part(0); p != nil {
			if t.Start.IsZero() {
				t.Start = time.Now()
			}
			p.waitFor(ctx, time.Until(t.Start.Add(t.Timeout)))
		}
		return n.acquire(ctx, t)
	}
	r := q.newRound(ctx, 1, t.Timeout+t.Replicas.Timeout)
	r.try, r.after, r.ask, r.ballot = *t, after, (*round).tryAt, newBallot(after)
	r.try.Plain = false // a vote that comes late must not count
	if t.Start.IsZero() {
		r.try.Start = r.began
	} else {
		r.bound = max(0, time.Until(t.Start.Add(r.bound)))
	}
	end := r.began.Add(r.bound)
	r.start()
	r.await(ctx)
	g, until, failure := r.result(t)
	if failure != nil {
		return Grant{}, failure
	}
	if t.Fencing {
		failure = q.raise(ctx, t, g.Fence, time.Until(end))
	}
	if failure == nil {
		failure = g.complete(ctx, t, len(q.nodes), until)
	}
	if failure != nil {
		failure.Open = g.open
		q.Undo(undoing(t), g)
		return Grant{}, failure
	}
	return g, nil
}

// acquire is Acquire where this is the only server.
func (n *node) acquire(ctx context.Context, t *server.Try) (Grant, *Failure) {
	reply := n.Acquire(ctx, *t)
	n.count(ctx, reply)
	if reply.Verdict != server.Done {
		return Grant{}, one(reply).refusal()
	}
	g := Grant{Fence: reply.Fence}
	if failure := g.complete(ctx, t, 1, reply.Sent.Add(t.TTL-Drift(t.TTL))); failure != nil {
		n.Undo(undoing(t))
		return Grant{}, failure
	}
	return g, nil
}

// one is the vote of a single server.
func one(reply server.Reply) *votes {
	v := new(votes)
	v.reset(make([]server.Reply, 1), make([]bool, 1))
	v.cast(0, reply)
	return v
}

// complete is where a grant becomes the caller's, which is valid until then. It says when that was. It fails if it is
// too late: cancellation wins ties, and at least half of the validity has to be left.
func (g *Grant) complete(ctx context.Context, t *server.Try, size int, until time.Time) *Failure {
	g.At = time.Now()
	g.Valid = Left(until, g.At)
	switch {
	case ended(ctx):
		return unavailable(size, errGivenUp)
	case g.Valid < (t.TTL-Drift(t.TTL))/2:
		return unavailable(size, errSlow)
	}
	return nil
}

// undoing is how a vote for t is taken back in the background. A ticket stays in the queue: it belongs to the waiter,
// which may go on.
func undoing(t *server.Try) *server.Release {
	r := t.Release(time.Now(), t.TTL)
	return &r
}

// tryAt asks server i for the lock, as soon as the release before is over there.
func (r *round) tryAt(i int) {
	n := r.home.nodes[i]
	if p := r.after.part(i); p != nil {
		n.await(p)
		if !r.timely(i) {
			r.ballot.clean.set(i) // nothing was sent
			r.report(i, server.Reply{Err: errLateRelease})
			return
		}
	}
	began := n.begin()
	reply := n.Acquire(r.ctx, r.try)
	n.end(began, !server.TimedOut(reply.Err))
	n.count(r.ctx, reply)
	if !reply.Undone && reply.Open.IsZero() {
		r.ballot.clean.set(i) // before the report: the grant may be there with it
	}
	won := reply.Verdict == server.Done
	switch end := r.report(i, reply); {
	case end == dropped && won:
		n.Undo(undoing(&r.try))
	case end == parted && won:
		r.mu.Lock()
		undo, rel := r.seats[i].undo, r.parting
		r.mu.Unlock()
		if undo {
			<-n.Undo(&rel) // the next try waits for our part
		}
	}
}

// over is when every try of the round is certainly over.
func (r *round) over() time.Time { return r.try.Start.Add(r.try.Timeout) }

// timely reports whether the try of server i, which had to wait for the release before, still makes sense.
func (r *round) timely(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted := (r.end == open || r.end == kept) && time.Now().Before(r.over())
	r.seats[i].unsent = !wanted
	return wanted
}

// result ends the round of an acquisition: it reads the grant off it, or has what was granted given
// back.
func (r *round) result(t *server.Try) (g Grant, until time.Time, failure *Failure) {
	r.mu.Lock()
	v := &r.votes[0]
	if v.won() {
		r.end = kept
		until, g.Fence = v.lease(t.TTL)
		g.ballot = r.ballot
		if v.out > r.skipped {
			g.late, g.open = r, r.over()
		}
		r.mu.Unlock()
		return g, until, nil
	}
	failure = v.refusal()
	r.end = dropped
	if v.out > r.skipped {
		failure.Open = r.over()
	}
	var undo *server.Release
	var voted []*node
	for i, reply := range v.replies {
		if v.in[i] && reply.Verdict == server.Done {
			if undo == nil {
				undo = undoing(t)
			}
			voted = append(voted, r.home.nodes[i])
		}
	}
	r.mu.Unlock()
	r.home.spread(len(voted), func(k int) { voted[k].Undo(undo) })
	return Grant{}, time.Time{}, failure
}

// raise writes the fence of a grant back to a majority, so that whoever is granted the
// lock next meets it on one server at least. All are told, also where a majority stands there
// already: a server that had lost its counter counts as well when another loses its own.
func (q *Quorum) raise(ctx context.Context, t *server.Try, fence int64, left time.Duration) *Failure {
	if left <= 0 {
		return unavailable(len(q.nodes), errSlow)
	}
	r := q.newRound(ctx, 1, left)
	r.lock, r.fence, r.ttl, r.ask = t.Lock, fence, t.TTL, (*round).raiseAt
	r.lock.Timeout = r.bound
	r.start()
	r.await(ctx)
	return r.outcome()
}

func (r *round) raiseAt(i int) {
	n := r.home.nodes[i]
	began := n.begin()
	reply := n.Raise(r.ctx, r.lock, r.fence, r.ttl)
	n.end(began, !server.TimedOut(reply.Err))
	n.count(r.ctx, reply)
	r.report(i, reply)
}

// outcome ends a round that leaves nothing.
func (r *round) outcome() *Failure {
	r.mu.Lock()
	failure := r.votes[0].ended()
	r.end = dropped
	r.mu.Unlock()
	return failure
}

// part tells the tries that are still under way that their lock is over. It returns what a release
// has to wait for.
func (g Grant) part() (pending *Tail) {
	if g.ballot == nil || g.late == nil {
		return nil
	}
	r := g.late
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = parted
	return r.tail()
}

// sent reports whether server i was asked for the lock. One that hung already was not.
func (g Grant) sent(i int) bool { return g.ballot == nil || i >= 64 || g.asked&(1<<uint(i)) != 0 }

// before is what the try had to wait for on server i, or nil.
func (g Grant) before(i int) *part {
	if g.ballot == nil {
		return nil
	}
	return g.after.part(i)
}

// undo has the lock undone on server i: by the try itself, if it is still under way there. It returns what the next
// try has to wait for.
func (g Grant) undo(i int, n *node, rel *server.Release) *part {
	if p := g.leave(i, rel); p != nil {
		return p
	}
	return &part{over: n.Undo(rel)}
}

// leave leaves the undo to the try, if that is still under way on server i.
func (g Grant) leave(i int, rel *server.Release) *part {
	if g.ballot == nil || g.late == nil {
		return nil
	}
	r := g.late
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.pending(i) {
		return nil
	}
	r.seats[i].undo, r.parting = true, *rel
	return r.part(i)
}
