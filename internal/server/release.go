package server

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// This file is the end of a Claim: from the call that releases it until nothing of it is left.

// Release releases the claim, and waits for the answer within its bound. With keep the lock is left to expire then. What
// the server does not answer goes on in the background. Missing is also the answer where nothing was sent that could have
// taken the lock. It first waits for the commands that are under way, because they would be answered behind it, until
// half of its time is over.
func (c *Claim) Release(ctx context.Context, start, keep time.Time) Reply {
	c.mu.Lock()
	if !c.letGo(keep, false) {
		c.mu.Unlock()
		return Reply{Verdict: Missing}
	}
	c.releasing = true
	c.await(ctx.Done(), start.Add(c.Timeout/2), func() bool { return c.running == 0 })
	if !c.there && c.running == 0 {
		c.advance(gone)
		c.mu.Unlock()
		return Reply{Verdict: Missing}
	}
	c.mu.Unlock()
	return c.server.begin(ctx, release, c, start, 0).do()
}

// releaseAll releases claims of one node in one round trip. It reports whether the node answers, so that more may follow.
func (s *Server) releaseAll(ctx context.Context, claims []*Claim) bool {
	longest := slices.MaxFunc(claims, func(a, b *Claim) int { return cmp.Compare(a.Timeout, b.Timeout) })
	op := s.begin(ctx, release, longest, time.Now(), 0)
	op.aside, op.requests = true, op.requests[:0]
	for _, c := range claims {
		op.requests = append(op.requests, request{claim: c})
	}
	reply := op.do()
	return reply.Verdict != Failed || Permanent(reply.Err)
}

// ReleaseLater releases the claim in the background: no caller waits for it. With keep the lock is left to expire then. After
// Close there is no background, and the release, if there is anything to release, is tried once before this returns.
func (c *Claim) ReleaseLater(keep time.Time) { c.releaseLater(keep, false) }

// Drop is ReleaseLater for a try that did not get the lock. Where the server was silent, the next try does not wait for it.
func (c *Claim) Drop() { c.releaseLater(time.Time{}, true) }

func (c *Claim) releaseLater(keep time.Time, dropped bool) {
	c.server.running.Enter() // what the runner gets now it has before Close has it end
	defer c.server.running.Leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.letGo(keep, dropped && !c.Kind.Shows && !c.cut && (c.silent || c.tries > 0 && c.server.Silent(time.Now()) > 0)) {
		return
	}
	if !c.server.running.Closing() || !c.there && c.running == 0 {
		c.settle()
		return
	}
	c.mu.Unlock()
	defer c.mu.Lock()
	c.server.releaseAll(context.Background(), []*Claim{c})
}

// StandInTheWay has the next claims of its keys wait for the release of c, which another goroutine may begin later.
func (c *Claim) StandInTheWay() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state < away {
		c.server.setInTheWay(c, true)
	}
}

// letGo notes that the caller releases the claim. It reports false if that was done before. The caller holds c.mu.
// Unless it is passable, the next claim of the key waits for this release if the lock excludes others; or if a reader may be in
// the queue: a server that calls it takes away the mark, under which the next claim may wait by then.
func (c *Claim) letGo(keep time.Time, passable bool) bool {
	if c.state >= released {
		return false
	}
	c.state = released
	if !keep.IsZero() {
		c.keep = keep.Sub(epoch)
	}
	if (c.there || c.running > 0) && !passable && (!c.Kind.Shared || (c.waits || c.running > 0) && c.Kind.Shows) {
		c.server.setInTheWay(c, true)
	}
	return true
}

// settle decides how a released claim goes on. A command that is under way has a moment to end first. The caller holds c.mu.
func (c *Claim) settle() {
	now := Monotonic()
	switch {
	case c.state == gone:
	case !c.there && c.running == 0:
		c.advance(gone)
	case c.releasing:
		c.server.runner(c).expedite(c)
	case c.running > 0:
		c.schedule(now + minBackoff/2) // if the runner does not take it, the end of the command settles it
	case !c.schedule(now):
		c.advance(gone)
	}
}

// schedule has the runner release the claim at that time, or later. It reports false if that is given up. The caller holds
// c.mu.
func (c *Claim) schedule(at time.Duration) bool {
	c.releasing = c.server.runner(c).add(c, at, max(c.until, c.keep))
	return c.releasing
}

// answered takes in the answer to a release, and decides when the next one is sent, and what the claim is until then:
//
//	no answer                                      a pause later                    in the way
//	the first, and a try may be right behind it    at once if the next claim waits  in the way
//	                                               for it, else a moment later
//	another, and a try is under way                when that ends                   away
//	another, and a try may come before its time    when that is over                away
//	another, and a plain try is in doubt           at once                          away
//	nothing may come, or the server never will     never                            gone
func (c *Claim) answered(r *Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, open := Monotonic(), c.open
	if c.keep > 0 { // an extension could raise the expiry again
		open = max(open, c.extending)
	}
	soon := r.Verdict != Failed && (c.tries > 0 || r.Sent.Sub(epoch) < open) && !c.overtook
	switch {
	case soon: // a try that was given up just now may be right behind it, over another connection
		c.overtook = true
	case r.Verdict != Failed:
		c.advance(away)
	default:
		c.server.unreleased.Store("; the last that failed: " + r.Err.Error())
	}
	more := false
	switch {
	case c.state == gone:
		return
	case r.Verdict == Failed && !Permanent(r.Err):
		more = c.schedule(now + minBackoff)
	case soon && c.tries == 0 && c.changed != nil: // the next claim waits
		more = c.schedule(now)
	case soon: // the end of a try that is under way expedites it
		more = c.schedule(now + minBackoff)
	case c.tries > 0, c.running > 0 && c.keep > 0: // the release overtook that command, whose end expedites the next
		more = c.schedule(now + c.Timeout)
	case r.Verdict == Failed:
	case r.Sent.Sub(epoch) < open:
		more = c.schedule(open)
	case c.doubt:
		c.open = max(c.open, now) // another release that is under way does not count as the second one
		c.doubt, more = false, c.schedule(now)
	}
	if !more {
		c.advance(gone)
	}
}

// toRelease returns for how long the lock is to stay locked after its release; and the mark and the place in the queue that
// are to go with it.
func (c *Claim) toRelease() (keep time.Duration, mark, member string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keep > 0 {
		keep = max(c.keep-Monotonic(), time.Millisecond)
	}
	if c.waits {
		member = c.member()
		if c.state < away { // in the first release only: later the mark may be that of the next waiter
			mark = c.mark()
		}
	}
	return keep, mark, member
}

func (c *Claim) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(gone)
}

// advance makes the claim away, or gone, and wakes those who wait until it is out of their way. The caller holds c.mu.
func (c *Claim) advance(to state) {
	was := c.state
	c.state = max(was, to)
	if was >= away {
		return
	}
	c.server.setInTheWay(c, false)
	c.wake()
}
