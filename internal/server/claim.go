package server

import (
	"context"
	"sync"
	"time"
)

// A Claim is all that one token may have on one server, from the first try to the answered release. Whatever is sent for
// the token goes through its Claim, which knows what may still be executed there.
//
//	wanted ─ End ─→ ended ─ Release, ReleaseLater ─→ released → gone
//	   └──────────────────────┘
//
// Invariants:
//   - Nothing is sent for a Claim that is not wanted any more, but its release.
//   - It is gone only when a release was answered that was sent after everything that could create the lock: a
//     try without an answer counts until its deadline, and a plain one, which carries none, until a second release was
//     answered that was sent after the first one was.
//   - A token for which a release or an undo was sent is never tried again.
//
// What nothing was sent for, or what the server has refused, is gone with the release, without asking. A Claim is given
// up, as if it were gone, when all that its token may have has expired; when the runner is full; or when the Client is
// closed.
type Claim struct {
	Lock
	server *Server

	mu        sync.Mutex
	want      want
	running   int16         // commands under way
	tries     int16         // those of them that could create the lock
	releasing bool          // a release is under way, or is the runner's
	there     bool          // the server may have something of the token
	waits     bool          // that may be a place in the queue, or a mark that it waits
	shown     bool          // the mark stays: others wait under it
	doubt     bool          // a plain try had no answer, and perhaps no undo behind it
	spent     bool          // an undo was sent, or a plain try is under way, so that one may be
	open      time.Time     // no try without an answer is executed after this
	extending time.Time     // nor an extension
	until     time.Time     // what the token may have expires then, at the latest
	keep      time.Time     // released: the lock is to expire then; zero: at once
	still     chan struct{} // closed when no command is under way; made when it is waited for
	cleared   bool          // it is out of the way of the next claim: a release was answered, or it is gone
	away      chan struct{} // closed then; made when it is waited for
	then      func()        // called then; or nil
}

type want int8

const (
	wanted   want = iota // by a caller who waits for the lock, or holds it
	ended                // lost, or its Client is closed; it has still to be released
	released             // the caller has released it
	gone
)

// Claim makes c the claim of a new token.
func (s *Server) Claim(c *Claim, l Lock) { c.Lock, c.server = l, s }

// Foreign returns the claim of a token that another process has taken.
func (s *Server) Foreign(l Lock) *Claim {
	return &Claim{Lock: l, server: s, there: true, until: time.Now().Add(l.TTL)}
}

// End has nothing more sent for the claim but its release.
func (c *Claim) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.want == wanted {
		c.want = ended
	}
}

// Wanted reports whether an answer that comes now counts.
func (c *Claim) Wanted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.want == wanted
}

// Spent reports whether the token must not be tried again.
func (c *Claim) Spent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spent || c.want != wanted
}

// Unknown reports whether a try had no answer.
func (c *Claim) Unknown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.open.IsZero() || c.tries > 0
}

// Away returns a channel that is closed when the claim is out of the way of the next one, or nil if it is: a release was
// answered, or there is none to wait for.
func (c *Claim) Away() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cleared {
		return nil
	}
	if c.away == nil {
		c.away = make(chan struct{})
	}
	return c.away
}

// WhenAway has f called when the claim is out of the way, and reports whether it is not yet. There is one f. It must not
// block.
func (c *Claim) WhenAway(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cleared {
		return false
	}
	c.then = f
	return true
}

// Quiet ends the claim, and waits until nothing is under way for it, until then at most, or until ctx ends.
func (c *Claim) Quiet(ctx context.Context, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.want = max(c.want, ended)
	c.awaitStill(ctx, until)
}

// awaitStill waits until no command is under way. The caller holds c.mu, which is free meanwhile.
func (c *Claim) awaitStill(ctx context.Context, until time.Time) {
	if c.running == 0 {
		return
	}
	if c.still == nil {
		c.still = make(chan struct{})
	}
	still := c.still
	c.mu.Unlock()
	defer c.mu.Lock()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-still:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// begin notes a command of the claim, which lets the token live until then. plain: it is a plain try. It reports false if
// the claim is not wanted.
func (c *Claim) begin(creates, plain bool, until time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.want != wanted {
		return false
	}
	c.running++
	if creates {
		c.tries++
	}
	c.spent = c.spent || plain
	if until.After(c.until) {
		c.until = until
	}
	return true
}

// tried takes in the answer to a try, which is not executed after due.
func (c *Claim) tried(r *Reply, due time.Time, plain, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	due = due.Add(c.Timeout) // by the server's clock, which may have drifted since it last answered
	c.tries--
	if plain {
		c.spent = r.Unknown
	}
	if r.Twice { // the one whose connection broke may have been executed
		c.there, c.waits = true, c.waits || waits
		c.doubt, c.open = true, latest(c.open, due)
	}
	if c.want == released { // the try may have been executed after a release that is still to be answered
		c.open = latest(c.open, time.Now())
	}
	switch {
	case r.Verdict == Done:
		c.there, c.waits = true, false
	case r.There:
		c.there = true
	case r.Unknown:
		c.there = true
		c.open = latest(c.open, due)
		c.doubt = c.doubt || plain
		fallthrough
	case r.Verdict == Held:
		c.there, c.waits = c.there || waits, c.waits || waits
	}
	c.end()
}

// KeepMark has the release leave the mark that this process waits.
func (c *Claim) KeepMark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = true
}

// Entered notes that the waiter has been handed the lock.
func (c *Claim) Entered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.there, c.waits = true, false
	c.until = latest(c.until, time.Now().Add(c.TTL))
}

// extended takes in the answer to an extension, which is not executed after due.
func (c *Claim) extended(r *Reply, due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Verdict == Failed {
		c.extending = latest(c.extending, due.Add(c.Timeout)) // as in tried
	}
	c.end()
}

// end ends a command. The caller holds c.mu.
func (c *Claim) end() {
	c.running--
	if c.running == 0 && c.still != nil {
		close(c.still)
		c.still = nil
	}
	c.settle()
}

// settle decides how a claim that was released goes on. What is under way has half of its time to end before the release
// overtakes it. The caller holds c.mu.
func (c *Claim) settle() {
	switch {
	case c.want != released:
	case !c.there && c.running == 0:
		c.forget()
	case c.releasing:
		c.server.runner(c).hasten(c)
	case c.running > 0:
		c.pursue(time.Now().Add(c.Timeout / 2)) // its end goes on, if this is given up
	case !c.pursue(time.Now()):
		c.forget()
	}
}

// pursue has the runner release the claim at that time, or later. It reports false if that is given up. The caller holds
// c.mu.
func (c *Claim) pursue(at time.Time) bool {
	c.releasing = c.server.runner(c).add(c, at, latest(c.until, c.keep))
	return c.releasing
}

// forget makes the claim one that is gone. The caller holds c.mu.
func (c *Claim) forget() {
	c.want = gone
	c.clear()
}

// clear tells those who wait for the claim that it is out of their way. The caller holds c.mu.
func (c *Claim) clear() {
	if c.cleared {
		return
	}
	c.cleared = true
	if c.away != nil {
		close(c.away)
	}
	if c.then != nil {
		c.then()
	}
}

// GiveUp ends a claim whose release no process pursues any more.
func (c *Claim) GiveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.want != gone {
		c.forget()
	}
}

// ReleaseLater releases the claim in the background: the caller could not, or does not want to wait. With keep the lock
// is left to expire then. After Close there is no background, and the release is tried once before this returns.
func (c *Claim) ReleaseLater(keep time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.want >= released {
		return
	}
	c.want, c.keep = released, keep
	if !c.server.closed.Load() {
		c.settle()
		return
	}
	c.mu.Unlock()
	c.server.releaseAll(context.Background(), []*Claim{c}, false)
	c.mu.Lock()
}

// release begins a release that the caller waits for. It first waits for the commands that are under way, because they
// would be answered behind it, until half of the time is over. It reports false if there is nothing to release.
func (c *Claim) release(ctx context.Context, keep, half time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.want >= released {
		return false
	}
	c.want, c.keep, c.releasing = released, keep, true
	c.awaitStill(ctx, half)
	if !c.there && c.running == 0 {
		c.forget()
		return false
	}
	return true
}

// answered takes in the answer to a release. The runner goes on if there was none, or it was too early.
func (c *Claim) answered(r *Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := c.open
	if !c.keep.IsZero() { // an extension could raise the expiry again
		open = latest(open, c.extending)
	}
	if r.Verdict != Failed {
		c.clear()
	}
	more := false
	switch {
	case c.want == gone:
		return
	case c.tries > 0, c.running > 0 && !c.keep.IsZero(): // overtaken; its end goes on with the release
		c.releasing, more = false, true
	case r.Verdict == Failed && !Permanent(r.Err):
		more = c.pursue(time.Now().Add(minPause))
	case r.Verdict == Failed:
	case r.Sent.Before(open):
		more = c.pursue(open)
	case c.doubt && r.Verdict != Done:
		c.doubt, more = false, c.pursue(time.Now())
	}
	if !more {
		c.forget()
	}
}

// rest returns for how long the lock is to stay locked, whether the release is that of a waiter too, and whether the mark of
// its process goes with it.
func (c *Claim) rest() (keep time.Duration, waits, hides bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.keep.IsZero() {
		keep = max(time.Until(c.keep), time.Millisecond)
	}
	return keep, c.waits, c.waits && !c.shown
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
