package quorum

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// Acquire tries once to take the lock on a majority of the servers. It returns as soon as the matter
// is decided, when ctx ends, or when the time of t is over: all of it takes one node timeout and that of the replicas at
// most, the writing back of the fence included.
//
// What a failed try leaves on several servers is released in the background, because waiters that split the votes must
// give them back. On one server the try may be repeated until the Votes are Spent; the caller releases them.
//
// before are the claims of earlier holds of this process: each server is asked only when the claim there is gone, so that
// our own release never stands in our way. with are the votes of further tokens, which enter together with this one.
func (v *Votes) Acquire(ctx context.Context, t server.Try, before *Before, with []*Votes) *Failure {
	q := v.home
	q.Enter()
	defer q.Leave()
	if q.Closing() { // nothing would wait for what it leaves
		return unavailable(len(q.nodes), errClosed)
	}
	for _, w := range with {
		t.With = append(t.With, &w.first)
	}
	if v.more == nil {
		return v.acquireSingle(ctx, t, before, with)
	}
	until, due, failure := v.try(ctx, t, before)
	if failure == nil && v.Lock().Fence == server.NextFence {
		failure = v.raise(ctx, due)
	}
	if failure == nil {
		failure = v.complete(ctx, until)
	}
	if failure != nil && t.Old == "" {
		v.ReleaseLater(time.Time{})
	}
	return failure
}

func (v *Votes) acquireSingle(ctx context.Context, t server.Try, before *Before, with []*Votes) *Failure {
	if t.Start.IsZero() {
		t.Start = time.Now()
	}
	before.wait(ctx, 0, t.Start.Add(v.first.Timeout))
	n := v.home.nodes[0]
	reply := v.first.Try(ctx, t)
	n.count(ctx, reply)
	if reply.Verdict != server.Done {
		return one(reply).refusal(v.Lock())
	}
	v.Fence = reply.Fence
	failure := v.complete(ctx, reply.Sent.Add(v.first.TTL-Drift(v.first.TTL)))
	for _, w := range with {
		w.At, w.Valid, w.Fence = v.At, v.Valid, v.Fence
	}
	return failure
}

// try has several servers vote. The votes that were given are valid until then, and the time for asking ends when due.
func (v *Votes) try(ctx context.Context, t server.Try, before *Before) (until, due time.Time, f *Failure) {
	l := v.Lock()
	r := v.home.newRound(ctx, 1, t.Start, l.Bound())
	t.Plain, t.Start = false, r.began // a vote that comes late must not count as one of a lock that nothing can end
	r.ask = func(i int) { r.report(i, v.tryAt(r, i, t, before)) }
	r.run(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.tallies[0].won() {
		return until, due, r.tallies[0].refusal(l)
	}
	until, v.Fence = r.tallies[0].lease(l.TTL)
	return until, r.due(), nil
}

// tryAt asks server i for the lock, as soon as the claim before is gone there.
func (v *Votes) tryAt(r *round, i int, t server.Try, before *Before) server.Reply {
	n, c := r.home.nodes[i], v.claim(i)
	if before.gone(i) != nil {
		gone := false
		n.ask(r.ctx, func() server.Reply { // those that come behind us skip the server
			gone = before.wait(r.ctx, i, r.began.Add(c.Timeout))
			return server.Reply{Err: errLateRelease, Unasked: true}
		})
		if !gone {
			return server.Reply{Err: errLateRelease}
		}
	}
	return n.ask(r.ctx, func() server.Reply { return c.Try(r.ctx, t) })
}

// complete is where the lock becomes the caller's, which is valid until then. It says when that was. It fails if it is
// too late: cancellation wins ties, and at least half of the validity has to be left.
func (v *Votes) complete(ctx context.Context, until time.Time) *Failure {
	v.At = time.Now()
	v.Valid = Left(until, v.At)
	ttl, size := v.Lock().TTL, len(v.home.nodes)
	switch {
	case ended(ctx):
		return unavailable(size, errGivenUp)
	case v.Valid < (ttl-Drift(ttl))/2:
		return unavailable(size, errSlow)
	}
	return nil
}

// raise writes the fence of a lock back to a majority, so that the caller that is granted the lock next meets it on one server at
// least. All are told, also where a majority stands there already: a server that had lost its counter counts as well when
// another loses its own.
func (v *Votes) raise(ctx context.Context, due time.Time) *Failure {
	left := time.Until(due)
	if left <= 0 {
		return unavailable(len(v.home.nodes), errSlow)
	}
	r := v.home.newRound(ctx, 1, time.Time{}, left)
	r.ask = func(i int) {
		n := r.home.nodes[i]
		r.report(i, n.ask(r.ctx, func() server.Reply { return n.Raise(r.ctx, v.Lock(), v.Fence, left) }))
	}
	r.run(ctx)
	return r.outcome(v.Lock())
}

// Release releases the lock on all servers, and returns when a majority has answered; with keep it is left to expire
// then. What remains goes on in the background, even if ctx ends; after Close nothing can, and so ctx does not count. The
// Failure is Missing or Taken when the lock was not ours any more, Unavailable when too few servers answered.
func (v *Votes) Release(ctx context.Context, start, keep time.Time) *Failure {
	q := v.home
	q.Enter()
	defer q.Leave()
	if q.Closing() { // a Close that comes after this waits for us, and gives what we leave another try
		ctx = context.WithoutCancel(ctx)
	}
	if v.more == nil {
		return q.nodes[0].outcome(ctx, v.Lock(), v.first.Release(ctx, start, keep))
	}
	r := q.newRound(ctx, 1, start, v.Lock().Timeout)
	r.ask = func(i int) {
		r.report(i, r.home.nodes[i].ask(r.ctx, func() server.Reply { return v.claim(i).Release(r.ctx, r.began, keep) }))
	}
	r.run(ctx)
	failure := r.outcome(v.Lock())
	if len(r.skipped) > 0 { // those that were released already do not mind
		v.ReleaseLater(keep)
	}
	return failure
}
