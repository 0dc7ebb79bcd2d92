package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

type Extension struct {
	*Votes
	TTL   time.Duration
	Until time.Time                         // end of the validity so far; a regained vote lasts until then at least
	Done  func(f *Failure, until time.Time) // called once, as soon as this lease is decided; if f is nil, until is its new end
}

// Extend extends leases, many in one round trip to each server. A lease is extended when a majority has extended it within its
// own bound. The rest of the batch does not matter. Extend returns when all leases are decided, or ctx ends.
func (q *Quorum) Extend(ctx context.Context, batch []*Extension) {
	if len(batch) == 0 {
		return
	}
	leases := make([][]server.Extension, len(q.servers))
	bound := time.Duration(0) // of the most patient lease; each server keeps to the bound of each lease
	for _, x := range batch {
		bound = max(bound, x.Spec().Bound())
		for i := range leases {
			leases[i] = append(leases[i], server.Extension{Claim: x.claim(i), TTL: x.TTL})
		}
	}
	if len(q.servers) == 1 {
		q.servers[0].Extend(ctx, time.Now(), leases[0], func(k int, reply server.Reply) {
			x := batch[k]
			x.Done(Outcome(reply), reply.Sent.Add(Validity(x.TTL)))
		})
		return
	}
	r := q.newRound(ctx, len(batch), time.Now(), bound)
	r.ask = func(i int) {
		missing := r.extend(i, leases[i])
		r.regain(i, batch, missing)
	}
	r.onDecided = func(k int) {
		t, x := &r.tallies[k], batch[k]
		failure, until := t.outcome(), time.Time{}
		if failure == nil {
			until, _ = t.lease(x.TTL)
		}
		x.Done(failure, until)
	}
	r.run(ctx)
}

// extend asks server i to extend the whole batch. It returns the indices of the leases that the server has lost.
func (r *round) extend(i int, leases []server.Extension) (missing []int) {
	var mu sync.Mutex
	r.home.servers[i].Extend(r.ctx, r.began, leases, func(k int, reply server.Reply) {
		switch {
		case reply.Verdict == server.Missing:
			mu.Lock()
			missing = append(missing, k)
			mu.Unlock()
		case reply.Verdict == server.Done && leases[k].Unknown():
			// No vote: an unanswered try may have taken the lock later, after a missed round and after another holder.
			reply = server.Reply{Err: errLateTry}
		}
		r.report(i, k, reply)
	})
	return missing
}

// regain asks server i again for votes that it lost: it restarted without its data, or the lock expired while it could not be
// reached. After a majority has confirmed the extension, regain sends it a try like any other: with a deadline and the restart
// guard, and in vain if it has another holder's token. So a long hold outlives servers that restart in turn.
//
// It is safe because a majority has confirmed the lock just now. While the lease lasts, no other caller can get a majority,
// with or without this server. The vote counts once a later renewal sees the token on the server. After a round that was
// missed, another caller may hold the lock, so nothing is regained.
//
// The server gets the fence first: its vote without the fence might give the next holder a lower one. regain stops where all
// leases fail, as at a replica: the next extension is soon, and a thousand leases must not ask a thousand times.
func (r *round) regain(i int, batch []*Extension, leases []int) {
	if len(leases) == 0 {
		return
	}
	<-r.ctx.Over
	for _, k := range leases {
		v, c := batch[k].Votes, batch[k].claim(i)
		if !r.tallies[k].won() || c.Unknown() {
			continue
		}
		var err error
		if v.Fence > 0 {
			err = r.home.servers[i].Raise(r.ctx, v.Spec(), v.Fence, c.Bound()).Err
		}
		if err == nil {
			err = c.Try(r.ctx, server.Try{Regains: true, TTL: max(batch[k].TTL, time.Until(batch[k].Until))}).Err
		}
		if err != nil && !server.OfOneLock(err) {
			return
		}
	}
}
