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
	op.claim, op.fresh = c, c.server.wasSilent(c.Key)
	return c.server.bounded(op, releasing{})
}

type releasing struct{}

func (releasing) do(op *operation) Reply {
	reply := op.releaseOnce()
	op.claim.answered(&reply)
	return reply
}

func (releasing) skip(op *operation, r Reply) { op.claim.answered(&r) }

func (op *operation) releaseOnce() Reply {
	ses, err := op.open(op.key)
	if err != nil {
		return Reply{Err: err}
	}
	op.sending()
	var reply Reply
	_ = ses.steady(func() error { // the error stands in the reply
		reply = ses.release(op.claim)
		return reply.Err
	})
	if ses.redials > 0 && (reply.Verdict == Missing || reply.Verdict == Taken) {
		reply.Verdict = Done // the command over the connection that broke may have released it
	}
	ses.close()
	return reply
}

// release sends one release. To do so twice does no harm, because tokens are never used again.
func (ses *session) release(c *Claim) Reply {
	keep, waits, hides := c.rest()
	script, args := ses.op.args.release(&c.Lock, keep, waits, hides, ses.pinned)
	raw, err := ses.run(script, args)
	return parseEnd(raw, err, ses.sent)
}

// releaseAll releases claims of one node in one round trip. It reports whether the node answered.
func (s *Server) releaseAll(ctx context.Context, batch []*Claim, fresh bool) bool {
	l := batch[0].Lock
	terms := *l.Terms
	for _, c := range batch {
		terms.Timeout = max(terms.Timeout, c.Timeout)
	}
	l.Terms = &terms
	op := s.begin(ctx, &l, time.Time{}, 0)
	op.fresh = fresh
	return s.bounded(op, releasingAll(batch)).Verdict == Done
}

type releasingAll []*Claim

func (batch releasingAll) do(op *operation) Reply {
	replies, err := batch.send(op)
	for i, c := range batch {
		if err != nil {
			c.answered(&Reply{Err: err})
			continue
		}
		c.answered(&replies[i])
	}
	if err != nil {
		return Reply{Err: err}
	}
	return Reply{Verdict: Done}
}

func (batch releasingAll) skip(_ *operation, r Reply) {
	for _, c := range batch {
		c.answered(&r)
	}
}

func (batch releasingAll) send(op *operation) ([]Reply, error) {
	ses, err := op.open(op.key)
	if err != nil {
		return nil, err
	}
	defer func() { ses.close() }()
	op.sending()
	replies := make([]Reply, len(batch))
	lay := func(i int) (script, []any) {
		keep, waits, hides := batch[i].rest()
		return op.args.release(&batch[i].Lock, keep, waits, hides, ses.pinned)
	}
	err = ses.evalAll(len(batch), lay, func(i int, raw any) { replies[i] = parseEnd(raw, nil, ses.sent) })
	if err != nil {
		return nil, err
	}
	for i := range replies {
		// What the first round trip could not settle goes to where it has to.
		if err := replies[i].Err; noScript(err) || moved(err) {
			if err := ses.moveTo(batch[i].Key); err != nil {
				replies[i] = Reply{Err: err}
				continue
			}
			replies[i] = ses.release(batch[i])
		}
	}
	return replies, nil
}
