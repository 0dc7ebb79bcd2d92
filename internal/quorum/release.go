package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// Release gives the lock back on all servers and returns when a majority has. What remains goes on
// in the background, even if ctx ends, and the Tail is what some servers have not answered (nil: all have). After Close nothing can, and so ctx does not count. The Failure is Missing or
// Taken when the lock was not ours any more, Unavailable when too few servers answered.
func (q *Quorum) Release(ctx context.Context, rel *server.Release, g Grant) (*Tail, *Failure) {
	q.enter()
	defer q.leave()
	if q.closing.Load() { // a Close that comes after this waits for us, and gives what we leave another try
		ctx = context.WithoutCancel(ctx)
	}
	if n := q.single(); n != nil {
		reply := n.Release(ctx, *rel)
		n.count(ctx, reply)
		if reply.Verdict == server.Done {
			return nil, nil
		}
		var tail *Tail
		if reply.Undoing != nil {
			tail = tail.add(0, 1, &part{over: reply.Undoing})
		}
		return tail, one(reply).ended()
	}
	r := q.newRound(ctx, 1, rel.Timeout)
	r.release, r.ask = *rel, (*round).releaseAt
	if rel.Start.IsZero() {
		r.release.Start = r.began
	} else {
		r.bound = max(0, time.Until(rel.Start.Add(r.bound)))
	}
	r.after = g.part()
	r.start()
	r.await(ctx)
	return r.released(rel, g)
}

// releaseAt releases the lock on server i, as soon as the try is over there.
func (r *round) releaseAt(i int) {
	n, rel := r.home.nodes[i], &r.release
	if p := r.after.part(i); p != nil {
		n.await(p)
		if p.unsent { // the lock is not there
			r.report(i, server.Reply{Verdict: server.Missing})
			return
		}
		late := *rel
		late.Start = time.Time{}
		rel = &late
	}
	began := n.begin()
	reply := n.Release(r.ctx, *rel)
	n.end(began, !server.TimedOut(reply.Err))
	n.count(r.ctx, reply)
	r.report(i, reply)
	if reply.Undoing != nil {
		<-reply.Undoing
	}
}

// released ends the round of a release. Where it was not even tried it goes on in the background.
func (r *round) released(rel *server.Release, g Grant) (*Tail, *Failure) {
	r.mu.Lock()
	failure := r.votes[0].ended()
	tail := r.tail()
	var silent []int
	for i := range r.seats {
		if r.seats[i].state == skipped {
			silent = append(silent, i)
		}
	}
	r.end = dropped
	r.mu.Unlock()
	if silent == nil {
		return tail, failure
	}
	background, parts := *rel, make([]*part, len(silent))
	r.home.spread(len(silent), func(k int) { parts[k] = g.undo(silent[k], r.home.nodes[silent[k]], &background) })
	for k, i := range silent {
		switch p := g.before(i); {
		case p != nil && !p.ended(): // so ours was not sent
			tail = tail.add(i, len(r.home.nodes), p)
		case g.sent(i):
			tail = tail.add(i, len(r.home.nodes), parts[k])
		}
	}
	return tail, failure
}

// Undo releases the lock everywhere, in the background. A try that has failed needs it only to have
// its ticket leave the queue; rel.Open is then the Failure's.
func (q *Quorum) Undo(rel *server.Release, g Grant) {
	g.part()
	background := *rel
	q.spread(len(q.nodes), func(i int) { g.undo(i, q.nodes[i], &background) })
}

// spread calls undo n times. In the background an undo takes no time; after Close there is none, and each takes up to a
// node timeout, so they go at the same time.
func (q *Quorum) spread(n int, undo func(k int)) {
	if !q.closing.Load() {
		for k := range n {
			undo(k)
		}
		return
	}
	var all sync.WaitGroup
	for k := range n {
		all.Go(func() { undo(k) })
	}
	all.Wait()
}
