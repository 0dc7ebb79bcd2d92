package server

import (
	"context"
	"time"
)

// This file is the end of a Claim: from the call that releases it until nothing of it is left.

// Release releases the claim, and waits for the answer within its bound. With keep the lock is left to expire then. What
// the server does not answer goes on in the background. Missing is also the answer where nothing was sent that could have
// taken the lock.
//
// It first waits for the commands that are under way, because they would be answered behind it, until half of its time is
// over.
func (c *Claim) Release(ctx context.Context, start, keep time.Time) Reply {
	c.mu.Lock()
	goes := c.letGo(keep, false)
	if goes {
		c.releasing = true
		if c.running > 0 {
			c.awaitStill(ctx, start.Add(c.Timeout/2))
		}
		if goes = c.there || c.running > 0; !goes {
			c.leave(gone)
		}
	}
	c.mu.Unlock()
	if !goes {
		return Reply{Verdict: Missing, Unasked: true}
	}
	op := c.server.begin(ctx, &c.Lock, start, 0, c)
	op.releases()
	return op.do()
}

// releases makes op the release of its claims.
func (op *operation) releases() {
	op.speak, op.lay = (*operation).scripts, layRelease
	op.took, op.left = (*operation).tookRelease, (*operation).leftRelease
}

// tookRelease takes in what came of a release.
func (op *operation) tookRelease(i int, r *Reply) {
	op.claims[i].answered(r)
	if op.redials > 0 && (r.Verdict == Missing || r.Verdict == Taken) {
		r.Verdict = Done // the command over the connection that broke may have released it
	}
}

// leftRelease has the runner go on with a release that its caller has left, because a pool may hang for longer than the lock
// lasts. What comes of the operation is taken in as well.
func (op *operation) leftRelease(i int) { op.claims[i].answered(&Reply{Err: errTimeout}) }

// layRelease is the release of claim i. To send it twice does no harm, because tokens are never used again.
func layRelease(op *operation, i int) (script, []any) {
	return op.args.release(op.claims[i], op.pinned)
}

// releaseAll releases claims of one node in one round trip. It reports whether the node answered.
func (s *Server) releaseAll(claims []*Claim) bool {
	first := claims[0]
	extra := time.Duration(0)
	for _, c := range claims {
		extra = max(extra, c.Timeout-first.Timeout)
	}
	op := s.begin(context.Background(), &first.Lock, time.Time{}, extra, claims...)
	op.aside = true
	op.releases()
	reply := op.do()
	code, _ := said(reply.Err)
	return reply.Verdict != Failed || code != ""
}

// ReleaseLater releases the claim in the background: the caller could not, or does not want to wait. With keep the lock
// is left to expire then. After Close there is no background, and the release, if there is anything to release, is tried
// once before this returns.
func (c *Claim) ReleaseLater(keep time.Time) { c.releaseLater(keep, false) }

// Drop is ReleaseLater for a try that did not get the lock. Where the server was silent, the next try does not wait for it.
func (c *Claim) Drop() { c.releaseLater(time.Time{}, true) }

func (c *Claim) releaseLater(keep time.Time, dropped bool) {
	c.server.running.Enter() // what the runner gets now it has before Close has it end
	defer c.server.running.Leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.letGo(keep, dropped && (c.tries > 0 || c.unsettled != nil && c.silent)) {
		return
	}
	if !c.server.running.Closing() || !c.there && c.running == 0 {
		c.settle()
		return
	}
	c.mu.Unlock()
	defer c.mu.Lock()
	c.server.releaseAll([]*Claim{c})
}

// InTheWay has the next claims of its keys wait for the release of c, which is about to begin, unless that is over already.
func (c *Claim) InTheWay() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.want < away {
		c.server.stands(c, true)
	}
}

// letGo notes that the caller releases the claim. It reports false if that was done before. The caller holds c.mu.
//
// The next claim waits for one that excludes others, or of which a mark is to be taken back that may be the next one's by
// then; unless this one goes aside.
func (c *Claim) letGo(keep time.Time, aside bool) bool {
	if c.want >= released {
		return false
	}
	c.want = released
	if !keep.IsZero() {
		c.more().keep = keep
	}
	if (c.there || c.running > 0) && !aside && (!c.Kind.Shared || c.waits && !c.shown && c.Kind.Shows) {
		c.server.stands(c, true)
	}
	return true
}

// settle decides how a claim that was released goes on. What is under way has half of its time to end before the release
// overtakes it. The caller holds c.mu.
func (c *Claim) settle() {
	switch {
	case c.want == gone:
	case !c.there && c.running == 0:
		c.leave(gone)
	case c.releasing:
		c.server.runner(c).hasten(c)
	case c.running > 0:
		c.pursue(time.Now().Add(c.Timeout / 2)) // its end goes on, if this is given up
	case !c.pursue(time.Now()):
		c.leave(gone)
	}
}

// pursue has the runner release the claim at that time, or later. It reports false if that is given up. The caller holds
// c.mu.
func (c *Claim) pursue(at time.Time) bool {
	until := epoch.Add(c.until)
	if c.unsettled != nil {
		until = latest(until, c.keep)
	}
	c.releasing = c.server.runner(c).add(c, at, until)
	return c.releasing
}

// answered takes in the answer to a release. The runner goes on if there was none, or it was too early.
func (c *Claim) answered(r *Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := unsettled{}
	if c.unsettled != nil {
		u = *c.unsettled
	}
	kept := !u.keep.IsZero()
	if kept { // an extension could raise the expiry again
		u.open = latest(u.open, u.extending)
	}
	if r.Verdict != Failed {
		c.leave(away)
	}
	more := false
	switch {
	case c.want == gone:
		return
	case c.tries > 0, c.running > 0 && kept: // overtaken; its end goes on with the release
		c.releasing, more = false, true
	case r.Verdict == Failed && !Permanent(r.Err):
		more = c.pursue(time.Now().Add(minPause))
	case r.Verdict == Failed:
	case r.Sent.Before(u.open):
		more = c.pursue(u.open)
	case c.doubt && r.Verdict != Done:
		now := time.Now()
		c.opens(now) // another release that is under way does not count as the second one
		c.doubt, more = false, c.pursue(now)
	}
	if !more {
		c.leave(gone)
	}
}

// rest returns for how long the lock is to stay locked after its release; and the mark and the place in the queue that are
// to go with it.
func (c *Claim) rest() (keep time.Duration, mark, member string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unsettled != nil && !c.keep.IsZero() {
		keep = max(time.Until(c.keep), time.Millisecond)
	}
	if c.waits {
		member = c.member()
		if !c.shown {
			mark = c.mark()
		}
	}
	return keep, mark, member
}

// GiveUp ends a claim whose release no process pursues any more.
func (c *Claim) GiveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(gone)
}

// leave makes the claim one that is away, or gone, and tells those who wait for it that it is out of their way. The caller
// holds c.mu.
func (c *Claim) leave(to want) {
	was := c.want
	c.want = max(was, to)
	if was >= away {
		return
	}
	c.server.stands(c, false)
	if u := c.unsettled; u != nil && u.gone != nil {
		close(u.gone)
	}
}

// Away returns a channel that is closed when the claim is out of the way of the next one, or nil if it is: a release was
// answered, or there is none to wait for.
func (c *Claim) Away() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.want >= away {
		return nil
	}
	u := c.more()
	if u.gone == nil {
		u.gone = make(chan struct{})
	}
	return u.gone
}
