package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Claim is all that one token may have on one server, from the first try to the answered release. Every command for the
// token goes through its Claim, which knows which commands the server may still execute.
//
//	wanted ─ End ─→ ended ─ Release, ReleaseLater ─→ released ─ an answer ─→ away ─→ gone
//	   └──────────────────────┘                         └─ nothing to release ────────┘
//
// Invariants:
//   - When a Claim is no longer wanted, nothing is sent for it but its release (beginCommand).
//   - It is gone only when a release was answered that was sent after every command that could create the lock. A try without
//     an answer can create the lock until its deadline. A plain try has no deadline, so a second release has to be answered
//     that was sent after the answer to the first (answered).
//   - A token for which a release or an undo was sent is never tried again (Spent).
//
// If nothing was sent for a Claim, or the server refused every try, its release sends nothing, and it is gone. A Claim is
// given up, as if it were gone, when all that its token may have has expired, the runner is full, or the Client is closed.
type Claim struct {
	Lock
	Server *Server // never changed

	mu         sync.Mutex // guards the fields below
	state      state
	running    int16         // commands under way, releases excepted
	tries      int16         // commands under way that could create the lock
	releasing  bool          // a release is under way, or the runner will send one
	mayExist   bool          // the server may have something of the token
	registered bool          // the server may have a place in the queue or a mark of the token
	doubt      bool          // a plain try has no answer: it is not known whether its undo was sent
	silent     bool          // a try got no answer, and neither did any later try
	cut        bool          // the last try is unanswered, because its caller's ctx had ended
	overtook   bool          // a release was answered, but an unanswered try may be executed after it: another release follows
	changed    chan struct{} // closed when a command has ended, or the claim is away; nil if no caller waits for that

	// Moments since epoch; 0: never.
	until     time.Duration // everything that the token may have has expired by then
	open      time.Duration // no unanswered try is executed after this
	extending time.Duration // no unanswered extension is executed after this
	keep      time.Duration // of a released claim: when the lock is to expire; 0: at once
}

type state int8

const (
	wanted   state = iota // a caller waits for the lock, or holds it
	ended                 // the lock is lost, or the Client is closed; the claim still has to be released
	released              // the caller has released the claim
	away                  // out of the next claim's way: a release was answered, and a second one if a try may be executed after the first
	gone                  // the server has nothing of the token, or the claim was given up
)

// End makes sure that nothing more is sent for the claim but its release.
func (c *Claim) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = max(c.state, ended)
}

// Spent reports whether the token must not be tried again.
func (c *Claim) Spent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubt || c.state != wanted
}

// Unknown reports whether the last try has no answer yet, and may still take the lock after another holder.
func (c *Claim) Unknown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tries > 0 || c.silent && Monotonic() < c.open
}

// mayHave notes that the token may have something on the server, or may get something there within that time.
func (c *Claim) mayHave(registered bool, within time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := Monotonic()
	c.mayExist, c.registered = true, registered
	c.until, c.open = max(c.until, now+c.TTL), max(c.open, now+within)
}

// Foreign notes that another process may have put the token on the server, or may still do so by a try that is under way. We
// don't know the node timeout of that process, so twice the longest default counts: see tried.
func (c *Claim) Foreign() { c.mayHave(false, 2*max(c.Timeout, MaxTimeout)) }

// Given notes that the token has the lock without a try of this Claim: it was taken elsewhere, or a message has handed it to
// the waiter. The message may come from a Mutex on the key of an RWMutex. A Mutex knows no marks, so ours may still be there.
func (c *Claim) Given() { c.mayHave(c.Kind.Shows, 0) }

// A Try says how to ask for a lock, or how to put a token in the place of another one.
type Try struct {
	Start      time.Time     // when the bound begins; zero: now
	TTL        time.Duration // 0: that of the lock
	Plain      bool          // SET NX PX may be used if possible: the caller will try again, and needs no news of the holder
	Queues     bool          // the caller waits in the queue
	Polls      bool          // the caller may be in the queue, but can't be woken now: it leaves the queue when it gets the lock
	Arrived    int64         // when the caller came to the queue, on the server's clock in µs; 0: not yet
	Rejoins    bool          // a caller missing in the queue goes back to its place; else its try is answered by Lapsed
	Shows      time.Duration // > 0: how long the others see that the caller waits
	With       []*Claim      // tokens that enter together with this one
	Olds       []string      // not nil: take the place of one of these tokens
	KeepsTTL   bool          // the new token lasts as long as the old one would have
	Downgrades bool          // a writer becomes a reader; the claim is that of the writer
	Regains    bool          // a majority of other servers holds the lock: the try does not wait for earlier releases
}

var errEnded = errors.New("the lock has ended meanwhile") // the answer for a claim that is no longer wanted

// Try tries once to take the lock, as soon as no release of an earlier claim of this process is in the way. It may be
// repeated until the token is Spent. A repeat that finds its token on the server has the lock.
func (c *Claim) Try(ctx context.Context, t Try) Reply {
	s := c.Server
	if t.Start.IsZero() {
		t.Start = time.Now()
	}
	if t.Olds == nil && !t.Downgrades && !t.Regains && s.inTheWay(c) != nil && !s.await(ctx, c, t.Start.Add(c.Timeout)) {
		why, _ := s.unreleased.Load().(string)
		return Reply{Err: fmt.Errorf("no answer to the release before%s", why)}
	}
	v := acquire
	if t.Olds != nil {
		v = swap
	} else if t.Downgrades {
		v = downgrade
	}
	op := s.begin(ctx, v, c, t.Start, c.Replicas.Timeout)
	ttl := cmp.Or(t.TTL, c.TTL)
	op.requests[0].ttl, op.try = ttl, t
	op.try.Plain = t.Plain && c.Kind.plain && !c.fenced() && !c.Guard && len(c.More) == 0 && s.scripted.Load()
	until := op.end.Add(ttl)
	if !c.beginCommand(&op.try, until) {
		op.free()
		return Reply{Err: errEnded}
	}
	for _, other := range t.With {
		other.beginCommand(new(Try), until)
	}
	return op.do()
}

// registers reports whether the try leaves a place in the queue or a mark, if it does not get the lock.
func (t *Try) registers() bool { return t.Queues || t.Shows > 0 }

// beginCommand notes that a command of the claim begins: a try, or an extension if t is nil. Whatever it gives the token has
// expired by until. It reports false, and notes nothing, if the claim is not wanted.
func (c *Claim) beginCommand(t *Try, until time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != wanted {
		return false
	}
	c.running++
	if t != nil {
		c.tries++
		c.doubt = c.doubt || t.Plain
		c.registered = c.registered || t.registers()
	}
	c.until = max(c.until, until.Sub(epoch))
	return true
}

// tried takes in the answer to a try, which the server does not execute after due. unanswered: the server may have executed
// the try, or may still execute it, whatever the answer says. cut: it is unanswered because the caller's ctx has ended.
func (c *Claim) tried(t *Try, r *Reply, unanswered, cut bool, due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tries--
	if t.Plain {
		c.doubt = unanswered
	}
	if unanswered {
		// due is kept by the server's clock, which may have drifted since it last answered: hence another timeout.
		c.open = max(c.open, due.Add(c.Timeout).Sub(epoch))
	}
	c.silent = r.Verdict == Failed && (unanswered || c.silent)
	c.cut = cut
	if c.state >= released { // the server may have executed the try after a release whose answer is still to come
		c.open = max(c.open, Monotonic())
	}
	c.mayExist = c.mayExist || unanswered || r.Verdict == Done || r.Verdict == Held && t.registers()
	if r.Verdict == Done && (t.registers() || t.Downgrades) { // the grant removed the place in the queue, and the mark
		c.registered = false
	}
	c.endCommand()
}

// extended takes in the answer to an extension, which the server does not execute after due. It counts only while the claim is
// wanted. unanswered: the server may still execute the extension, whatever the answer says.
func (c *Claim) extended(r *Reply, unanswered bool, due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if unanswered {
		c.extending = max(c.extending, due.Add(c.Timeout).Sub(epoch)) // as in tried
	}
	if c.state >= released { // as in tried
		c.extending = max(c.extending, Monotonic())
	}
	if r.Verdict == Done {
		c.registered = false // the hand-off removed the place in the queue, and the extension the mark
		if c.state != wanted {
			*r = Reply{Err: errEnded}
		}
	}
	c.endCommand()
}

// endCommand notes that a command has ended which beginCommand or Enter noted. The caller holds c.mu.
func (c *Claim) endCommand() {
	c.running--
	c.wake()
	if c.state >= released {
		c.settle()
	}
}

// wake wakes the callers of await. The caller holds c.mu.
func (c *Claim) wake() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// Enter makes Quiet wait until Leave is called, for a try that is about to begin.
func (c *Claim) Enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
}

func (c *Claim) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endCommand()
}

// Quiet waits while a command of the claim is under way, but no longer than until the given time or the end of ctx.
func (c *Claim) Quiet(ctx context.Context, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.await(ctx.Done(), until, func() bool { return c.running == 0 })
}

// await waits until so returns true, but no longer than until the given time or until stop is closed. It returns the last
// result of so. The caller holds c.mu, which is free while await waits.
func (c *Claim) await(stop <-chan struct{}, until time.Time, so func() bool) bool {
	for !so() && time.Now().Before(until) {
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(time.Until(until)):
		case <-stop:
			until = time.Time{}
		}
		c.mu.Lock()
	}
	return so()
}
