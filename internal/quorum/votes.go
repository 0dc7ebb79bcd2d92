// Package quorum makes one decision from the votes of N servers. It is the Redlock algorithm
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/); one server is the case N = 1. It knows nothing
// of goroutines that share a lock, nor of when a lock is renewed.
package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/server"
	"github.com/redimutex/redimutex/internal/underway"
)

// A Quorum decides by majority over its servers.
type Quorum struct {
	servers        []*server.Server
	underway.Count // each operation, each goroutine of this package, and each release of a parked lock
}

func New(servers []*server.Server) *Quorum { return &Quorum{servers: servers} }

// Close waits for the operations under way, also for those that no caller waits for. Then it closes the servers, which try
// once more to release what is left. All of this takes d at most, and the operations take half of it at most.
func (q *Quorum) Close(d time.Duration) {
	end := time.Now().Add(d)
	q.Wait(d / 2)
	var closing sync.WaitGroup
	for _, s := range q.servers {
		closing.Go(func() { s.Close(time.Until(end)) })
	}
	closing.Wait()
}

// Votes are the votes of the servers for one lock: a claim on each server.
type Votes struct {
	At    time.Time     // when the lock was granted
	Valid time.Duration // counted from At
	Fence int64         // 0: none

	home  *Quorum
	first server.Claim    // the claim on the first server, often the only one
	more  *[]server.Claim // the claims on the others; nil: there are none; a pointer, because a grant has to be small
}

// Claim makes v the Votes for a lock that is to be taken.
func (q *Quorum) Claim(v *Votes, l server.Lock) {
	v.home = q
	if n := len(q.servers); n > 1 {
		more := make([]server.Claim, n-1)
		v.more = &more
	}
	for i, s := range q.servers {
		c := v.claim(i)
		c.Lock, c.Server = l, s
	}
}

func (v *Votes) claim(i int) *server.Claim {
	if i == 0 {
		return &v.first
	}
	return &(*v.more)[i-1]
}

func (v *Votes) Each(f func(*server.Claim)) {
	for i := range v.home.servers {
		f(v.claim(i))
	}
}

// Spent reports whether the token must not be tried again, because that would be unsafe on one of the servers.
func (v *Votes) Spent() (spent bool) {
	v.Each(func(c *server.Claim) { spent = spent || c.Spent() })
	return spent
}

func (v *Votes) Spec() *server.Lock { return &v.first.Lock } // the lock that the votes are for
func (v *Votes) Until() time.Time   { return v.At.Add(v.Valid) }

// Accept records that the only server has handed the lock to the token of v. until is the end of its validity.
func (v *Votes) Accept(until time.Time, fence int64) {
	v.MarkGranted(until)
	v.Fence = fence
	v.first.Given()
}

// Acquire tries once to take the lock on a majority of the servers. It returns when the try is decided, when ctx ends, or when
// the time of t is over. This time is one node timeout and that of the replicas at most, and includes the writing back of the
// fence. On several servers a failed try that is no swap is released in the background: waiters that split the votes must give
// them back. On one server the try may be repeated until the Votes are Spent, and the caller releases them.
//
// from: the votes that v replaces. with: on one server, the votes of further tokens that enter together with v.
func (v *Votes) Acquire(ctx context.Context, t server.Try, from, with []*Votes) *Failure {
	q := v.home
	q.Enter()
	defer q.Leave()
	if q.Closing() { // nothing would wait for what the try leaves
		return &Failure{Kind: Closed}
	}
	if v.more != nil {
		return v.byMajority(ctx, t, from)
	}
	for _, w := range with {
		t.With = append(t.With, &w.first)
	}
	reply := v.first.Try(ctx, t)
	if reply.Verdict != server.Done {
		return one(reply).refusal()
	}
	v.Fence = reply.Fence
	err := v.complete(ctx, reply.Sent.Add(Validity(v.Spec().TTL)))
	for _, w := range with {
		w.At, w.Valid, w.Fence = v.At, v.Valid, v.Fence
	}
	if err != nil {
		return one(reply).failure(Unavailable, err)
	}
	return nil
}

// byMajority is Acquire on several servers.
func (v *Votes) byMajority(ctx context.Context, t server.Try, from []*Votes) *Failure {
	l := v.Spec()
	t.Plain = false // a plain try has no deadline: its late vote must not count for a lock that nothing can end
	r := v.home.newRound(ctx, 1, t.Start, l.Bound())
	r.ask = func(i int) { r.report(i, 0, v.claim(i).Try(r.ctx, t)) }
	if t.Olds != nil {
		r.begin = func(i int) { v.claim(i).Enter() }
		r.ask = func(i int) { v.swap(r, i, t, from) }
	}
	if t.KeepsTTL || len(t.Olds) > 1 { // v is that of a Taker, and another Taker may be in its first step, too
		r.rival = server.Taken
	}
	r.run(ctx)
	votes := &r.tallies[0]
	failure := votes.refusal()
	if t.KeepsTTL { // a Taker's first step is not the lock yet: Valid is how long its token lasts, as far as the servers have told
		v.At = r.began
		for _, reply := range votes.replies {
			v.Valid = max(v.Valid, reply.Left)
		}
		return failure
	}
	if failure == nil {
		var until time.Time
		until, v.Fence = votes.lease(l.TTL)
		if l.Fence == server.NextFence {
			failure = v.raise(ctx, time.Until(r.began.Add(r.bound)))
		}
		if err := v.complete(ctx, until); failure == nil && err != nil {
			failure = votes.failure(Unavailable, err)
		}
	}
	if t.Olds == nil && failure != nil {
		close(r.ctx.Dropped)
		if conn.Ended(ctx) == nil {
			Drop(v)
		} else { // the caller cut the try short, and the servers need not be silent: its next try waits for the release
			v.ReleaseLater(time.Time{})
		}
	}
	if t.Olds != nil && votes.won() { // the skipped servers are asked after all: no extension regains the vote of a Handover
		for _, i := range r.skipped {
			r.dispatch(i)
		}
	}
	return failure
}

// complete makes the lock the caller's; until is the end of its validity. It fails if ctx ended or too little of that is left.
func (v *Votes) complete(ctx context.Context, until time.Time) error {
	switch enough := v.MarkGranted(until); {
	case conn.Ended(ctx) != nil: // cancellation wins ties
		return errGivenUp
	case !enough:
		return errSlow
	}
	return nil
}

// MarkGranted records that the lock is granted now, and valid until the given time. It reports whether half a lease is left.
func (v *Votes) MarkGranted(until time.Time) bool {
	v.At = time.Now()
	v.Valid = Left(until, v.At)
	return v.Valid >= Validity(v.Spec().TTL)/2
}

// raise writes the fence of a lock back to a majority. So the caller that gets the lock next finds it on at least one server.
// All servers are told, even if a majority has the fence already: a server that had lost its counter then counts, too, when
// another server loses its own.
func (v *Votes) raise(ctx context.Context, left time.Duration) *Failure {
	r, fence := v.home.newRound(ctx, 1, time.Now(), left), v.Fence // a copy: the caller may change v.Fence when it has left
	r.ask = func(i int) { r.report(i, 0, r.home.servers[i].Raise(r.ctx, v.Spec(), fence, left)) }
	r.run(ctx)
	return r.tallies[0].outcome()
}

// Release releases the lock on all servers, and returns when a majority has answered. If keep is not zero, the lock expires at
// keep instead. The rest goes on in the background, even if ctx ends. After Close there is no background, so ctx does not
// count. The Failure is Missing or Taken if the lock was not ours any more, and Unavailable if too few servers answered.
func (v *Votes) Release(ctx context.Context, start, keep time.Time) *Failure {
	q, l := v.home, v.Spec()
	q.Enter()
	defer q.Leave()
	if q.Closing() && ctx.Done() != nil { // a Close that begins later waits for this release, and tries again what it leaves
		ctx = context.WithoutCancel(ctx)
	}
	if v.more == nil {
		return Outcome(v.first.Release(ctx, start, keep))
	}
	v.Each((*server.Claim).StandInTheWay) // first: the round may be decided before the last server is asked
	r := q.newRound(ctx, 1, start, l.Timeout)
	r.ask = func(i int) { r.report(i, 0, v.claim(i).Release(r.ctx, r.began, keep)) }
	r.run(ctx)
	if len(r.skipped) > 0 { // a claim that was released already ignores this
		v.ReleaseLater(keep)
	}
	return r.tallies[0].outcome()
}

// ReleaseLater is Release in the background, with the same keep. After Close it asks once, and waits for the answer.
func (v *Votes) ReleaseLater(keep time.Time) {
	later(func(c *server.Claim) { c.ReleaseLater(keep) }, v)
}

// Drop is ReleaseLater for tries that did not get the lock. The next try does not wait for servers that were silent.
func Drop(tries ...*Votes) { later((*server.Claim).Drop, tries...) }

func later(release func(*server.Claim), all ...*Votes) { // after Close all run at once: each may last a node timeout
	var closed sync.WaitGroup
	defer closed.Wait()
	for _, v := range all {
		v.Each(func(c *server.Claim) {
			if v.home.Closing() {
				closed.Go(func() { release(c) })
			} else {
				release(c)
			}
		})
	}
}

// Outcome returns what the reply of the only server means for an operation on a held lock; nil: it was done.
func Outcome(reply server.Reply) *Failure {
	if reply.Verdict == server.Done {
		return nil
	}
	return one(reply).outcome()
}

// Validity returns how long a lease of ttl counts: 1% and 2 ms less, because clocks run at different speeds.
func Validity(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// Left returns the time left before until, by the clock that leaves less. Most monotonic clocks stop while the machine sleeps.
func Left(until, now time.Time) time.Duration {
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}
