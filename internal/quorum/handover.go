package quorum

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// swap asks server i to put the token of v in the place of one of t.Olds. If v wins a majority without this server, swap
// releases from there: the old token would be in the way of the next holder.
func (v *Votes) swap(r *round, i int, t server.Try, from []*Votes) {
	reply := v.claim(i).Try(r.ctx, t)
	v.claim(i).Leave()
	r.report(i, 0, reply)
	if reply.Verdict == server.Done {
		return
	}
	<-r.ctx.Over
	if !r.tallies[0].won() {
		return
	}
	for _, w := range from {
		w.claim(i).ReleaseLater(time.Time{})
	}
}

// InPlace returns the votes of another token for the lock of v, to be swapped in. They take no fence. They need no restart
// guard, because only a server that has the lock swaps tokens.
func (v *Votes) InPlace(token string, ttl time.Duration) *Votes {
	l, to := *v.Spec(), new(Votes)
	terms := *l.Terms
	terms.TTL, terms.Fence, terms.Guard = ttl, server.NoFence, false
	l.Terms, l.Token = &terms, token
	v.home.Claim(to, l)
	return to
}

// Give puts the token of to, made by InPlace, in the place of the token of v, for the process that takes over. It sends nothing
// more for v but releases. What is under way for v changes nothing: it does not find its token, or its token is released from
// there. A repeat finds what the first call did. The Failure is Missing or Taken if the lock was not ours any more.
func (v *Votes) Give(ctx context.Context, to *Votes) *Failure {
	v.Each((*server.Claim).End)
	f := to.Acquire(ctx, server.Try{Start: time.Now(), Olds: []string{v.Spec().Token}}, []*Votes{v}, nil)
	if f != nil && f.Kind == Taken && isStep(f.Holder) { // takers have split the votes, and may give them back
		f = &Failure{Kind: Unavailable, Errs: slices.Repeat([]error{errLost}, len(v.home.servers))}
	}
	return f
}

// A Taker takes over a lock that another process has handed over. Until the votes are Spent, Take may be repeated.
//
// Over several servers it takes two steps. The first step puts a token in the place of old, for the rest of old's TTL. If no
// caller learns of such a vote, or can give it back, it excludes others only until then. Once a majority has that token, the
// second step puts the token of the lock in its place, or in the place of old. A late step changes nothing, in whatever order.
type Taker struct {
	votes  *Votes
	old    string
	step   *Votes // the votes of the first step; nil with one server
	placed bool   // the first step was won: no vote goes back any more, unless Close or a refusal ends the take-over
}

// unknownTTL limits how long a token may live that has the rest of another token's TTL.
const unknownTTL = 24 * time.Hour

// Taker returns a Taker for the lock whose token is old. v are its votes.
func (v *Votes) Taker(old string) *Taker {
	k := &Taker{votes: v, old: old}
	if v.more != nil {
		k.step = v.InPlace(v.Spec().Token+server.StepMark, unknownTTL)
		k.step.Spec().Replicas.N = 0 // this token is not the lock yet
	}
	return k
}

// Take tries once. If the try wins, Take calls begin, which reports false if the Client is closed.
func (k *Taker) Take(ctx context.Context, begin func() bool) *Failure {
	v := k.votes
	v.home.Enter()
	defer v.home.Leave()
	t, from := server.Try{Start: time.Now(), Olds: []string{k.old}}, []*Votes(nil)
	if k.step != nil {
		if f := k.first(ctx, t.Start); f != nil {
			return f
		}
		t.Olds = append(t.Olds, k.step.Spec().Token)
		from = []*Votes{k.votesOf(t.Olds[0]), k.votesOf(t.Olds[1])}
	}
	f := v.Acquire(ctx, t, from, nil)
	switch {
	case f == nil && begin():
		return nil
	case f == nil, f.Kind == Closed && k.placed:
		v.Each((*server.Claim).End)
		back := server.Try{Olds: []string{v.Spec().Token}, KeepsTTL: true}
		if k.step != nil { // a server may have either token, and that of the lock has its own TTL
			back.Olds, back.KeepsTTL = append(back.Olds, k.step.Spec().Token), false
			back.TTL = max(time.Until(k.step.Until()), time.Millisecond)
		}
		k.giveBack(ctx, t.Start, back)
		return &Failure{Kind: Closed}
	case f.Kind == Refused && k.placed: // this Taker can't have the lock; another one may get it
		v.ReleaseLater(time.Time{}) // the votes that some servers gave
		k.giveBack(ctx, t.Start, server.Try{Olds: []string{k.step.Spec().Token}, KeepsTTL: true})
	case f.Kind == Missing, f.Kind == Taken:
		k.release()
	}
	return f
}

// first takes the first step, unless it was won before. If a server denies that it has old, votes of other servers go back.
func (k *Taker) first(ctx context.Context, start time.Time) *Failure {
	if !k.placed {
		f := k.step.Acquire(ctx, server.Try{Start: start, Olds: []string{k.old}, KeepsTTL: true}, nil, nil)
		switch {
		case f == nil:
			k.placed = true
		case f.Kind == Missing, f.Holder != "" && !isStep(f.Holder): // on a majority old is gone, or another token has replaced it
			k.release()
			return f
		case f.Kind == Taken, f.Kind == Refused, slices.Contains(f.Errs, errLost):
			k.giveBack(ctx, start, server.Try{Olds: []string{k.step.Spec().Token}, KeepsTTL: true})
			return f
		default: // a repeat may get the other votes
			return f
		}
	}
	if ctx.Err() != nil {
		return &Failure{Kind: Ended}
	}
	return nil
}

// votesOf returns the votes of another token of this take-over. A server may still have that token, so it has to be released.
func (k *Taker) votesOf(token string) *Votes {
	w := k.votes.InPlace(token, cmp.Or(k.step.Valid, unknownTTL))
	w.Each((*server.Claim).Foreign)
	return w
}

// release releases all that the Taker has, after the lock was lost.
func (k *Taker) release() {
	all := []*Votes{k.votes}
	if k.step != nil {
		all = append(all, k.votesOf(k.step.Spec().Token))
	}
	later(func(c *server.Claim) { c.ReleaseLater(time.Time{}) }, all...)
}

// giveBack puts old back in the place of t.Olds, on the servers that have one of them. If ctx ends, or the bound of a call
// since start, it goes on in the background. On each server it waits for earlier tries: a late one must not come behind this.
func (k *Taker) giveBack(ctx context.Context, start time.Time, t server.Try) {
	v, due := k.votes, start.Add(k.votes.Spec().Bound())
	back, done := context.WithDeadline(ctx, due)
	v.home.Go(func() {
		defer done()
		var asking sync.WaitGroup
		for i := range v.home.servers { // not by a round, which skips servers that seem to be silent
			asking.Go(func() {
				v.claim(i).Quiet(context.Background(), due)
				if k.step != nil {
					k.step.claim(i).Quiet(context.Background(), due)
				}
				v.InPlace(k.old, unknownTTL).claim(i).Try(context.Background(), t)
			})
		}
		asking.Wait()
	})
	<-back.Done()
}

// Downgrade makes a reader of a writer. It may be repeated.
func (v *Votes) Downgrade(ctx context.Context) *Failure {
	return Outcome(v.first.Try(ctx, server.Try{Downgrades: true}))
}
