package quorum

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// swap asks server i to replace the tokens of from, or another old one, by that of v. It first waits, for half of its time at
// most, for the commands of from that are under way there. Where v has a majority and not this server, it releases from: the
// old token would be in the way of the next holder.
func (v *Votes) swap(r *round, i int, t server.Try, from []*Votes) {
	for _, w := range from {
		w.claim(i).Quiet(r.ctx, t.Start.Add(v.Spec().Timeout/2))
	}
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

// InPlace returns the votes of another token for the lock of v, for its servers to swap. It takes no fence, and the restart
// guard is not needed: only a server that has the lock puts another token there.
func (v *Votes) InPlace(token string, ttl time.Duration) *Votes {
	l, to := *v.Spec(), new(Votes)
	terms := *l.Terms
	terms.TTL, terms.Fence, terms.Guard = ttl, server.NoFence, false
	l.Terms, l.Token = &terms, token
	v.home.Claim(to, l)
	return to
}

// Give replaces the token of v by that of to, made by InPlace, for the process that takes over. It first waits, for half of
// its time at most, for what is under way for v, and sends nothing more for v. It may be repeated, and finds what it has done.
// The Failure is Missing or Taken when the lock was not ours any more.
func (v *Votes) Give(ctx context.Context, to *Votes) *Failure {
	v.Each((*server.Claim).End)
	f := to.Acquire(ctx, server.Try{Start: time.Now(), Olds: []string{v.Spec().Token}}, []*Votes{v}, nil)
	if f != nil && f.Kind == Taken && step(f.Holder) { // by takers that have split the votes, which may go back
		f = &Failure{Kind: Unavailable, Errs: slices.Repeat([]error{errLost}, len(v.home.servers))}
	}
	return f
}

// A Taker takes over a lock that another process has handed over. It may be asked again while its votes are not Spent, and finds
// what it has done.
//
// Over several servers it takes two steps. The first puts a token in the place of old that lasts as long as that would: so a
// vote that no caller hears of, or can give back, keeps others out until then and no longer. When a majority has it, the second
// puts the token of the lock in its place, or in that of old. A step that comes late, in whatever order, changes nothing.
type Taker struct {
	votes  *Votes
	old    string
	step   *Votes // the first step; nil on one server
	placed bool   // it has won: nothing goes back any more, unless we are closed or refused
}

// unknownTTL is for how long a token may live that has the rest of another's time.
const unknownTTL = 24 * time.Hour

// Taker returns a Taker that makes v the votes for the lock that has the token old.
func (v *Votes) Taker(old string) *Taker {
	k := &Taker{votes: v, old: old}
	if v.more != nil {
		k.step = v.InPlace(v.Spec().Token+server.StepMark, unknownTTL)
		k.step.Spec().Replicas.N = 0 // it is not the lock yet
	}
	return k
}

// Take tries once, and then calls begin, which reports false if we are closed.
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
		back := server.Try{Olds: []string{v.Spec().Token}, Keeps: true}
		if k.step != nil { // a server may have either token, and that of the lock has a TTL of its own
			back.Olds, back.Keeps = append(back.Olds, k.step.Spec().Token), false
			back.TTL = max(time.Until(k.step.Until()), time.Millisecond)
		}
		k.giveBack(ctx, t.Start, back)
		return &Failure{Kind: Closed}
	case f.Kind == Refused && k.placed: // the lock can't be had so; another taker may get it
		v.ReleaseLater(time.Time{}) // what some servers have given
		k.giveBack(ctx, t.Start, server.Try{Olds: []string{k.step.Spec().Token}, Keeps: true})
	case f.Kind == Missing, f.Kind == Taken:
		k.release()
	}
	return f
}

// first takes the first step, if that has not been won before. Where a server denies that it has old, other votes go back.
func (k *Taker) first(ctx context.Context, start time.Time) *Failure {
	if !k.placed {
		f := k.step.Acquire(ctx, server.Try{Start: start, Olds: []string{k.old}, Keeps: true}, nil, nil)
		switch {
		case f == nil:
			k.placed = true
		case f.Kind == Missing, f.Holder != "" && !step(f.Holder): // on a majority old is gone, or another has taken its place
			k.release()
			return f
		case f.Kind == Taken, f.Kind == Refused, slices.Contains(f.Errs, errLost):
			k.giveBack(ctx, start, server.Try{Olds: []string{k.step.Spec().Token}, Keeps: true})
			return f
		default: // a repeat may find the rest
			return f
		}
	}
	if ctx.Err() != nil {
		return &Failure{Kind: Ended}
	}
	return nil
}

// votesOf returns the votes of another token of this take-over, which a server may still have, so that they can be released.
func (k *Taker) votesOf(token string) *Votes {
	w := k.votes.InPlace(token, cmp.Or(k.step.Valid, unknownTTL))
	w.Each((*server.Claim).Foreign)
	return w
}

// release releases what the Taker has of a lock that was lost.
func (k *Taker) release() {
	all := []*Votes{k.votes}
	if k.step != nil {
		all = append(all, k.votesOf(k.step.Spec().Token))
	}
	later(func(c *server.Claim) { c.ReleaseLater(time.Time{}) }, all...)
}

// giveBack puts old in place of the tokens of t again, where the servers have them. When ctx ends, or the time of a call since
// start, that goes on in the background. It waits for the tries before on each: a late one must not come behind this.
func (k *Taker) giveBack(ctx context.Context, start time.Time, t server.Try) {
	v, due := k.votes, start.Add(k.votes.Spec().Bound())
	back, done := context.WithDeadline(ctx, due)
	v.home.Go(func() {
		defer done()
		var asking sync.WaitGroup
		for i := range v.home.servers { // not by a round, which passes over servers that seem to be silent
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
	return Outcome(v.first.Try(ctx, server.Try{Reads: true}))
}
