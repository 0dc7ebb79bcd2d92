package server

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// This file is the end of a Claim: from the call that releases it until it is gone.

// Release releases the claim, and waits for the answer within its bound. If keep is not zero, the lock stays locked until keep.
// A release without an answer goes on in the background. The reply is also Missing if nothing was sent that could have taken the
// lock, or if the claim was released before. First the tries under way have to end, because they could be executed after it. An
// extension finds nothing then: it has to end before Release returns. Both waits end after half of the bound at the latest.
func (c *Claim) Release(ctx context.Context, start, keep time.Time) Reply {
	c.mu.Lock()
	if !c.letGo(keep, false) {
		c.mu.Unlock()
		return Reply{Verdict: Missing}
	}
	c.releasing = true
	half, source := start.Add(c.Timeout/2), c.Server.Source
	beside := keep.IsZero() && (source.Punctual || source.Dial != nil && !source.Cluster) && !source.Full() // a connection for both
	c.await(ctx.Done(), half, func() bool { return c.running == 0 || beside && c.tries == 0 })
	if !c.mayExist && c.running == 0 {
		c.advance(gone)
		c.mu.Unlock()
		return Reply{Verdict: Missing}
	}
	c.mu.Unlock()
	defer c.Quiet(ctx, half)
	return c.Server.begin(ctx, release, c, start, 0).do()
}

// releaseAll releases claims of one node in one round trip. It reports whether the node has answered, so that more may follow.
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

// ReleaseLater releases the claim in the background. If keep is not zero, the lock stays locked until keep. After Close
// nothing runs in the background: if there is anything to release, ReleaseLater tries that once before it returns.
func (c *Claim) ReleaseLater(keep time.Time) { c.releaseLater(keep, false) }

// Drop is ReleaseLater for a try that did not get the lock. If the server was silent, the next try does not wait for it.
func (c *Claim) Drop() { c.releaseLater(time.Time{}, true) }

func (c *Claim) releaseLater(keep time.Time, dropped bool) {
	c.Server.running.Enter() // Close waits for this: the runner gets the claim before it is closed
	defer c.Server.running.Leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.letGo(keep, dropped && !c.Kind.Shows && !c.cut && (c.silent || c.tries > 0 && c.Server.Silent(time.Now()) > 0)) {
		return
	}
	if !c.Server.running.Closing() || !c.mayExist && c.running == 0 {
		c.settle()
		return
	}
	c.mu.Unlock()
	defer c.mu.Lock()
	c.Server.releaseAll(context.Background(), []*Claim{c})
}

// StandInTheWay makes the next claims of c's keys wait for the release of c, which another goroutine may begin later.
func (c *Claim) StandInTheWay() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state < away {
		c.Server.setInTheWay(c, true)
	}
}

// letGo notes that the caller releases the claim. It reports false if that was done before. The caller holds c.mu.
// Unless passable, the next claim of the key waits for this release if the lock excludes others. It also waits if a reader may
// be in the queue: a hand-off to it removes the mark of this process, under which the next claim may wait by then.
func (c *Claim) letGo(keep time.Time, passable bool) bool {
	if c.state >= released {
		return false
	}
	c.state = released
	if !keep.IsZero() {
		c.keep = keep.Sub(epoch)
	}
	if (c.mayExist || c.running > 0) && !passable && (!c.Kind.Shared || (c.registered || c.running > 0) && c.Kind.Shows) {
		c.Server.setInTheWay(c, true)
	}
	return true
}

// settle decides what happens next to a released claim. A command under way gets a moment to end first. The caller holds c.mu.
func (c *Claim) settle() {
	now := Monotonic()
	switch {
	case c.state == gone:
	case !c.mayExist && c.running == 0:
		c.advance(gone)
	case c.releasing:
		c.Server.runner(c).expedite(c)
	case c.running > 0:
		c.schedule(now + minBackoff/2) // if the runner refuses the claim, the end of the command settles it
	case !c.schedule(now):
		c.advance(gone)
	}
}

// schedule makes the runner release c at that time or later. It reports false if the runner refuses. The caller holds c.mu.
func (c *Claim) schedule(at time.Duration) bool {
	c.releasing = c.Server.runner(c).add(c, at, max(c.until, c.keep))
	return c.releasing
}

// answered takes in the answer to a release. It decides when the next release is sent, and what the claim is until then:
//
//	the answer                                          the next release                              the claim
//	none                                                after a pause                                 in the way
//	the first, and a try may be executed right after    at once if the next claim waits, else soon    in the way
//	another, and a try is under way                     when the try ends                             away
//	another, and a try may be executed until open       at open                                       away
//	another, and a plain try is in doubt                at once                                       away
//	a refusal that looks permanent, or a closed pool    after a second: a right may be given back     away
//	another, and nothing can follow                     never                                         gone
func (c *Claim) answered(r *Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, open := Monotonic(), c.open
	if c.keep > 0 { // a late extension could raise the expiry again
		open = max(open, c.extending)
	}
	soon := r.Verdict != Failed && (c.tries > 0 || r.Sent.Sub(epoch) < open) && !c.overtook
	switch {
	case soon: // a try that was given up just now may follow the release, over another connection
		c.overtook = true
	case r.Verdict != Failed, Permanent(r.Err): // if the server refuses, the next claim gets its words and need not wait
		c.advance(away)
	default:
		c.Server.unreleased.Store("; the last that failed: " + r.Err.Error())
	}
	more := false
	switch {
	case c.state == gone:
		return
	case r.Verdict == Failed && !Permanent(r.Err):
		more = c.schedule(now + minBackoff)
	case soon && c.tries == 0 && c.changed != nil: // the next claim waits
		more = c.schedule(now)
	case soon: // the end of a try that is under way expedites the next release
		more = c.schedule(now + minBackoff)
	case c.tries > 0, c.running > 0 && c.keep > 0: // the release overtook a command, whose end expedites the next release
		more = c.schedule(now + c.Timeout)
	case r.Verdict == Failed:
		more = c.schedule(now + maxBackoff)
	case r.Sent.Sub(epoch) < open:
		more = c.schedule(open)
	case c.doubt:
		c.open = max(c.open, now) // a release that is already under way does not count as the second one
		c.doubt, more = false, c.schedule(now)
	}
	if !more {
		c.advance(gone)
	}
}

// toRelease returns how long the lock stays locked after its release, and which mark and place in the queue have to go.
func (c *Claim) toRelease() (keep time.Duration, mark, member string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keep > 0 {
		keep = max(c.keep-Monotonic(), time.Millisecond)
	}
	if c.registered {
		member = c.member()
		if c.state < away { // when the claim is away, the mark may be that of the next waiter
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

// advance makes the claim away or gone, and wakes the goroutines that wait for that. The caller holds c.mu.
func (c *Claim) advance(to state) {
	was := c.state
	c.state = max(was, to)
	if was >= away {
		return
	}
	c.Server.setInTheWay(c, false)
	c.wake()
}
