package quorum

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// Release releases the lock on all servers, and returns when a majority has answered; with keep it is left to expire
// then. What remains goes on in the background, even if ctx ends; after Close nothing can, and so ctx does not count. The
// Failure is Missing or Taken when the lock was not ours any more, Unavailable when too few servers answered.
func (v *Votes) Release(ctx context.Context, start, keep time.Time) *Failure {
	q := v.home
	q.enter()
	defer q.leave()
	if q.closing.Load() { // a Close that comes after this waits for us, and gives what we leave another try
		ctx = context.WithoutCancel(ctx)
	}
	if v.claims == nil {
		reply := v.single.Release(ctx, start, keep)
		q.nodes[0].count(ctx, reply)
		if reply.Verdict == server.Done {
			return nil
		}
		return one(reply).outcome(v.Lock())
	}
	r := q.newRound(ctx, 1, start, v.Lock().Timeout)
	r.ask = func(i int, _ bool) {
		r.report(i, r.home.nodes[i].ask(r.ctx, func() server.Reply { return v.claims[i].Release(r.ctx, r.began, keep) }))
	}
	r.run(ctx)
	r.mu.Lock()
	failure, skipped := r.tallies[0].outcome(v.Lock()), r.skipped > 0
	r.mu.Unlock()
	if skipped { // those that were released already do not mind
		v.ReleaseLater(keep)
	}
	return failure
}
