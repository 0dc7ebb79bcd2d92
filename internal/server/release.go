package server

import (
	"context"
	"time"
)

// Release releases the claim, and waits for the answer within its bound. With keep the lock is left to expire then. What
// the server does not answer goes on in the background. Missing is also the answer where nothing was sent that could have
// taken the lock.
func (c *Claim) Release(ctx context.Context, start, keep time.Time) Reply {
	if !c.release(ctx, keep, start.Add(c.Timeout/2)) {
		return Reply{Verdict: Missing, Unasked: true}
	}
	op := c.server.begin(ctx, &c.Lock, start, 0)
	op.claim = c
	return c.server.bounded(op, releasing{})
}

type releasing struct{}

func (releasing) ask(ses *session) Reply {
	reply := ses.release(ses.op.claim)
	if ses.redials > 0 && (reply.Verdict == Missing || reply.Verdict == Taken) {
		reply.Verdict = Done // the command over the connection that broke may have released it
	}
	return reply
}

func (releasing) took(op *operation, r *Reply) { op.claim.answered(r) }

// release sends one release. To do so twice does no harm, because tokens are never used again.
func (ses *session) release(c *Claim) Reply {
	raw, err := ses.run(ses.op.args.release(c, ses.pinned))
	reply, _ := answer(raw, err, ses.sent)
	return reply
}

// releaseAll releases claims of one node in one round trip. It reports whether the node answered.
func (s *Server) releaseAll(claims []*Claim) bool {
	l := claims[0].Lock
	terms := *l.Terms
	for _, c := range claims {
		terms.Timeout = max(terms.Timeout, c.Timeout)
	}
	l.Terms = &terms
	op := s.begin(context.Background(), &l, time.Time{}, 0)
	op.background = true
	return s.bounded(op, &releasingAll{claims, make([]Reply, len(claims))}).Verdict == Done
}

type releasingAll struct {
	claims  []*Claim
	replies []Reply
}

func (a *releasingAll) keys(each func(string)) {
	for _, c := range a.claims {
		each(c.Key)
	}
}

func (a *releasingAll) ask(ses *session) Reply {
	lay := func(i int) (script, []any) { return ses.op.args.release(a.claims[i], ses.pinned) }
	err := ses.evalAll(len(a.claims), lay, func(i int, raw any) { a.replies[i], _ = answer(raw, nil, ses.sent) })
	if err != nil {
		return Reply{Err: err}
	}
	for i, c := range a.claims {
		// What the first round trip could not settle goes to where it has to.
		if elsewhere(a.replies[i].Err) {
			if err := ses.moveTo(c.Key); err != nil {
				a.replies[i] = Reply{Err: err}
				continue
			}
			a.replies[i] = ses.release(c)
		}
	}
	return Reply{Verdict: Done}
}

func (a *releasingAll) took(_ *operation, r *Reply) {
	for i, c := range a.claims {
		if r.Verdict == Failed {
			a.replies[i] = *r
		}
		c.answered(&a.replies[i])
	}
}
