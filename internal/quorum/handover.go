package quorum

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// Give puts the token of to in the place of that of v, for the process that is to take the lock over, after all that is under way
// for v has ended; for that it takes half of the time at most. Nothing more is sent for v. It may be repeated, and finds
// what it has done. The Failure is Missing or Taken when the lock was not ours any more.
func (v *Votes) Give(ctx context.Context, to *Votes) *Failure {
	start := time.Now()
	v.End()
	v.all(func(c *server.Claim) { c.Quiet(ctx, start.Add(c.Timeout/2)) })
	return to.Acquire(ctx, server.Try{Old: v.Lock().Token}, nil, nil)
}

// Take puts the token of v in the place of another one. It may be repeated until the Votes are Spent: a repeat finds
// what it has done. What is known to have failed is given back to old.
func (v *Votes) Take(ctx context.Context, old string) *Failure {
	start := time.Now()
	failure := v.Acquire(ctx, server.Try{Old: old}, nil, nil)
	if failure == nil || failure.Kind != Missing && failure.Kind != Taken {
		return failure
	}
	v.End()
	if v.claims == nil {
		return failure // the only server has said that there is nothing of v
	}
	due := start.Add(v.Lock().Timeout)
	back := make(chan struct{})
	v.home.enter()
	go func() {
		defer v.home.leave()
		v.giveBack(old, due)
		close(back)
	}()
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-back:
	case <-timer.C:
	case <-ctx.Done():
	}
	return failure
}

// giveBack puts old in the place of the token of v again, where the servers have it. It waits for the tries before: one
// that is answered late must not come behind this. None is executed after due.
func (v *Votes) giveBack(old string, due time.Time) {
	v.all(func(c *server.Claim) { c.Quiet(context.Background(), due) })
	l := *v.Lock()
	terms := *l.Terms
	terms.Fence, l.Terms = server.NoFence, &terms
	l.Token = old
	v.home.Votes(l).Acquire(context.Background(), server.Try{Old: v.Lock().Token}, nil, nil)
}

// Downgrade makes a reader of a writer. It may be repeated.
func (v *Votes) Downgrade(ctx context.Context) *Failure {
	reply := v.single.Try(ctx, server.Try{Reads: true})
	v.home.nodes[0].count(ctx, reply)
	return one(reply).outcome(v.Lock())
}
