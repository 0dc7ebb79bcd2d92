// Package quorum makes one vote of N servers: the Redlock algorithm
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/), of which a single
// server is the case N = 1. It knows nothing of goroutines that share a lock, nor of renewal.
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
	underway.Count // each operation, each goroutine of this package, and each release of a lock that was parked
}

func New(servers []*server.Server) *Quorum { return &Quorum{servers: servers} }

// Close waits until the operations under way are over, also those that no caller waits for any more, and closes the servers,
// which try once more to release what is left. All of it takes d at most, and the operations no more than half of that.
func (q *Quorum) Close(d time.Duration) {
	end := time.Now().Add(d)
	q.Wait(d / 2)
	var closing sync.WaitGroup
	for _, s := range q.servers {
		closing.Go(func() { s.Close(time.Until(end)) })
	}
	closing.Wait()
}

// Votes are what the servers give for one lock: a claim on each.
type Votes struct {
	At    time.Time     // when the lock was given
	Valid time.Duration // from At
	Fence int64         // 0: none

	home  *Quorum
	first server.Claim    // of the first server, which often is the only one
	more  *[]server.Claim // of the others; nil: there is none; a pointer, because a grant has to be small
}

// Claim makes v the Votes for a lock that is to be taken.
func (q *Quorum) Claim(v *Votes, l server.Lock) {
	v.home = q
	if n := len(q.servers); n > 1 {
		more := make([]server.Claim, n-1)
		v.more = &more
	}
	for i, s := range q.servers {
		s.Claim(v.claim(i), l)
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

// Spent reports whether the token must not be tried again: on one of the servers that would be unsafe.
func (v *Votes) Spent() (spent bool) {
	v.Each(func(c *server.Claim) { spent = spent || c.Spent() })
	return spent
}

func (v *Votes) Spec() *server.Lock { return &v.first.Lock } // what they are votes for
func (v *Votes) Until() time.Time   { return v.At.Add(v.Valid) }

// Accept makes the votes those of a lock that the only server has handed to its token, which is valid until then.
func (v *Votes) Accept(until time.Time, fence int64) {
	v.Begin(until)
	v.Fence = fence
	v.first.Given()
}

// Acquire tries once to take the lock on a majority of the servers. It returns as soon as the matter is decided, when ctx
// ends, or when the time of t is over: one node timeout and that of the replicas at most, the writing back of the fence
// included. What a failed try leaves on several servers is released in the background, because waiters that split the
// votes must give them back. On one server it may be repeated until the Votes are Spent; the caller releases them.
//
// from: the votes whose place these take. with: on one server, those of further tokens that enter together with this one.
func (v *Votes) Acquire(ctx context.Context, t server.Try, from, with []*Votes) *Failure {
	q := v.home
	q.Enter()
	defer q.Leave()
	if q.Closing() { // nothing would wait for what it leaves
		return &Failure{Kind: Closed}
	}
	if v.more != nil {
		return v.byMajority(ctx, t, from)
	}
	for _, w := range from {
		w.first.Quiet(ctx, t.Start.Add(v.Spec().Timeout/2))
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
	t.Plain = false // a vote that comes late must not count as one of a lock that nothing can end
	r := v.home.newRound(ctx, 1, t.Start, l.Bound())
	r.ask = func(i int) { r.report(i, 0, v.claim(i).Try(r.ctx, t)) }
	if t.Olds != nil {
		r.begin = func(i int) { v.claim(i).Enter() }
		r.ask = func(i int) { v.swap(r, i, t, from) }
	}
	if t.Keeps || len(t.Olds) > 1 { // a Taker: another one may be in its first step, too
		r.rival = server.Taken
	}
	r.run(ctx)
	votes := &r.tallies[0]
	failure := votes.refusal()
	if t.Keeps { // the first step of a Taker, which is not the lock yet: for how long it lasts, as far as the servers have told
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
		} else { // a caller that comes back at once waits: the servers need not be silent
			v.ReleaseLater(time.Time{})
		}
	}
	if t.Olds != nil && votes.won() { // those that were skipped are asked after all: no extension regains the vote of a Handover
		for _, i := range r.skipped {
			r.dispatch(i)
		}
	}
	return failure
}

// complete is where the lock becomes the caller's, which is valid until then. It fails if it is too late.
func (v *Votes) complete(ctx context.Context, until time.Time) error {
	switch enough := v.Begin(until); {
	case conn.Ended(ctx) != nil: // cancellation wins ties
		return errGivenUp
	case !enough:
		return errSlow
	}
	return nil
}

// Begin has the lock, which is valid until then, be given now. It reports whether enough of that is left: half.
func (v *Votes) Begin(until time.Time) bool {
	v.At = time.Now()
	v.Valid = Left(until, v.At)
	return v.Valid >= Validity(v.Spec().TTL)/2
}

// raise writes the fence of a lock back to a majority, so that the caller that is granted the lock next meets it on one
// server at least. All are told, also where a majority stands there already: a server that had lost its counter counts as
// well when another loses its own.
func (v *Votes) raise(ctx context.Context, left time.Duration) *Failure {
	r, fence := v.home.newRound(ctx, 1, time.Now(), left), v.Fence // which the caller may change when it has left
	r.ask = func(i int) { r.report(i, 0, r.home.servers[i].Raise(r.ctx, v.Spec(), fence, left)) }
	r.run(ctx)
	return r.tallies[0].outcome()
}

// Release releases the lock on all servers, and returns when a majority has answered; with keep it is left to expire
// then. What remains goes on in the background, even if ctx ends; after Close nothing can, and so ctx does not count. The
// Failure is Missing or Taken when the lock was not ours any more, Unavailable when too few servers answered.
func (v *Votes) Release(ctx context.Context, start, keep time.Time) *Failure {
	q, l := v.home, v.Spec()
	q.Enter()
	defer q.Leave()
	if q.Closing() && ctx.Done() != nil { // a Close that comes after this waits for us, and gives what we leave another try
		ctx = context.WithoutCancel(ctx)
	}
	if v.more == nil {
		return Outcome(v.first.Release(ctx, start, keep))
	}
	v.Each((*server.Claim).StandInTheWay) // the round may be decided before the last server is asked
	r := q.newRound(ctx, 1, start, l.Timeout)
	r.ask = func(i int) { r.report(i, 0, v.claim(i).Release(r.ctx, r.began, keep)) }
	r.run(ctx)
	if len(r.skipped) > 0 { // those that were released already do not mind
		v.ReleaseLater(keep)
	}
	return r.tallies[0].outcome()
}

// ReleaseLater releases the lock in the background; with keep it is left to expire then. After Close it asks once, and waits.
func (v *Votes) ReleaseLater(keep time.Time) {
	later(func(c *server.Claim) { c.ReleaseLater(keep) }, v)
}

// Drop is ReleaseLater for tries that did not get the lock. The next one does not wait for servers that were silent.
func Drop(tries ...*Votes) { later((*server.Claim).Drop, tries...) }

func later(release func(*server.Claim), all ...*Votes) { // after Close, all at the same time: each may last a node timeout
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

// Outcome says what the reply of the only server comes to, about a lock that is held.
func Outcome(reply server.Reply) *Failure {
	if reply.Verdict == server.Done {
		return nil
	}
	return one(reply).outcome()
}

// Validity is for how long a lease of ttl counts: 1% and 2 ms less, for clocks that run at different speeds.
func Validity(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// Left is what is left until then by the clock that has less: the monotonic one of most systems stands still in a sleep.
func Left(until, now time.Time) time.Duration {
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}
