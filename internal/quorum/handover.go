package quorum

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// Give puts the token of to in the place of that of v, for whoever is to take the lock over, after all that is under way
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
	failure := v.Acquire(ctx, server.Try{Old: old}, nil, nil)
	if failure == nil || failure.Kind != Missing && failure.Kind != Taken {
		return failure
	}
	v.End()
	back := *v.Lock()
	terms := *back.Terms
	terms.Fence, back.Terms = server.NoFence, &terms
	back.Token = old
	votes := v.home.Votes(back)
	votes.Acquire(context.WithoutCancel(ctx), server.Try{Old: v.Lock().Token}, nil, nil)
	return failure
}

// Downgrade makes a reader of a writer. It may be repeated.
func (v *Votes) Downgrade(ctx context.Context) *Failure {
	reply := v.single.Try(ctx, server.Try{Reads: true})
	v.home.nodes[0].count(ctx, reply)
	return one(reply).outcome(v.Lock())
}
