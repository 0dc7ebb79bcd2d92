package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// swap asks server i to replace the token of from, or another old one, by that of v. It first waits, for half of its time at
// most, for the commands of from that are under way there.
func (v *Votes) swap(r *round, i int, t server.Try, from *Votes) {
	if from != nil {
		from.claim(i).Quiet(r.ctx, t.Start.Add(v.Lock().Timeout/2))
	}
	reply := v.claim(i).Try(r.ctx, t)
	r.report(i, 0, reply)
	if reply.Verdict == server.Done {
		return
	}
	<-r.over
	if !r.tallies[0].won() {
		return
	}
	// The token of v has the place of the old one on a majority. Here the old one would be in the way of the next holder, so
	// it is released. For how long it may live, its own claim knows best.
	if from == nil {
		from = v.InPlace(t.Old, unknownTTL)
		from.claim(i).Foreign()
	}
	from.claim(i).ReleaseLater(time.Time{})
}

const unknownTTL = 24 * time.Hour // for how long a token may live that has the rest of another's time

// InPlace returns the votes of another token for the lock of v, for its servers to swap. It takes no fence, and the restart
// guard is not needed: only a server that has the lock puts another token there.
func (v *Votes) InPlace(token string, ttl time.Duration) *Votes {
	l, to := *v.Lock(), new(Votes)
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
	f := to.Acquire(ctx, server.Try{Old: v.Lock().Token}, v, nil)
	if f != nil && f.Kind == Taken && f.Holder == "" && v.more != nil { // by takers that have split the votes, which go back
		f = &Failure{Kind: Unavailable, Errs: slices.Repeat([]error{errLost}, len(v.home.servers))}
	}
	return f
}

// Take puts the token of v in the place of old, and then calls begin, which reports false if we are closed. It may be
// repeated until the Votes are Spent: a repeat finds what it has done. spent are the tokens of such tries before.
//
// Over several servers it takes two steps. First a token is put there that lasts as long as old would have. So what no caller
// hears of, or can't be given back, keeps others out until then, and no longer. When that is on a majority, the token of v takes
// its place. Where a server denies that it has old, the votes of the others go back.
func (v *Votes) Take(ctx context.Context, old string, spent []string, begin func() bool) *Failure {
	v.home.Enter()
	defer v.home.Leave()
	start, mine, place, taken := time.Now(), v.Lock().Token, old, false
	step, failure := v.InPlace(mine+server.StepMark, unknownTTL), (*Failure)(nil)
	step.Lock().Replicas.N = 0 // it is not the lock yet
	if v.more != nil {
		first := server.Try{Start: start, Old: old, Olds: []string{mine}, Keeps: true}
		for _, token := range spent {
			first.Olds = append(first.Olds, token, token+server.StepMark)
		}
		failure, place = step.Acquire(ctx, first, nil, nil), step.Lock().Token
	}
	if taken = failure == nil; taken {
		failure = v.Acquire(ctx, server.Try{Start: start, Old: place}, step, nil)
	}
	switch {
	case failure == nil && begin():
		return nil
	case failure == nil:
		failure = &Failure{Kind: Closed}
	case v.more == nil, failure.Kind == Closed && !taken: // no server has anything of v
		return failure
	case failure.Kind == Unavailable && (taken || !slices.Contains(failure.Errs, errLost)):
		return failure // a repeat may find the rest
	}
	v.Each((*server.Claim).End)
	step.Each((*server.Claim).End)
	if failure.Kind == Missing || failure.Holder != "" { // on a majority old is gone, or another has taken its place
		v.ReleaseLater(time.Time{})
		step.ReleaseLater(time.Time{})
		return failure
	}
	due := start.Add(v.Lock().Bound())
	back, done := context.WithDeadline(ctx, due)
	v.home.Go(func() {
		defer done()
		v.giveBack(old, step, due)
	})
	<-back.Done()
	return failure
}

// giveBack puts old in the place of the token of v, or of step, again, where the servers have it. It waits for the tries before
// on each: one that is answered late must not come behind this, and none is executed after due.
func (v *Votes) giveBack(old string, step *Votes, due time.Time) {
	var asking sync.WaitGroup
	for i := range v.home.servers { // not by a round, which passes over servers that seem to be silent
		asking.Go(func() {
			step.claim(i).Quiet(context.Background(), due)
			v.claim(i).Quiet(context.Background(), due)
			v.InPlace(old, unknownTTL).claim(i).Try(context.Background(), server.Try{Old: step.Lock().Token, Olds: []string{v.Lock().Token}, Keeps: true})
		})
	}
	asking.Wait()
}

// Downgrade makes a reader of a writer. It may be repeated.
func (v *Votes) Downgrade(ctx context.Context) *Failure {
	return Outcome(v.first.Try(ctx, server.Try{Reads: true}))
}
