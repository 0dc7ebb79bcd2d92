package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Claim is all that one token may have on one server, from the first try to the answered release. Whatever is sent for
// the token goes through its Claim, which knows what may still be executed there.
//
//	wanted ─ End ─→ ended ─ Release, ReleaseLater ─→ released ─ an answer ─→ away ─→ gone
//	   └──────────────────────┘                         └─ nothing to release ────────┘
//
// Invariants:
//   - Nothing is sent for a Claim that is not wanted any more, but its release (begin).
//   - It is gone only when a release was answered that was sent after all that could create the lock. A try without an
//     answer can do so until its deadline. A plain one has no deadline: a second release has to be answered that was sent
//     after the answer to the first (answered).
//   - A token for which a release or an undo was sent is never tried again (Spent).
//
// What nothing was sent for, or what the server has refused, is gone with the release, without asking. A Claim is given up, as
// if it were gone, when all that its token may have has expired; when the runner is full; or when the Client is closed.
type Claim struct {
	Lock
	server *Server

	mu        sync.Mutex
	state     state
	running   int16         // commands under way
	tries     int16         // those of them that could create the lock
	releasing bool          // a release is under way, or the runner will send one
	there     bool          // the server may have something of the token
	waits     bool          // it may have a place in the queue, or a mark that it waits
	doubt     bool          // a plain try has no answer: whether its undo was sent is not known
	silent    bool          // a try had no answer, and no later one has had one
	cut       bool          // that was because its caller's ctx had ended
	overtook  bool          // a release was answered, but an unanswered try may be executed behind it: another release follows
	changed   chan struct{} // closed when no command is under way, or it is away; nil if no caller waits for that

	// Since epoch; 0: never.
	until     time.Duration // when what the token may have has expired, at the latest
	open      time.Duration // no try without an answer is executed after this
	extending time.Duration // no extension without an answer is executed after this
	keep      time.Duration // released: the lock is to expire then; 0: at once
}

type state int8

const (
	wanted   state = iota // by a caller who waits for the lock, or holds it
	ended                 // lost, or its Client is closed; it has still to be released
	released              // the caller has released it
	away                  // out of the next claim's way: a release was answered, and a second one if a try may follow the first
	gone                  // nothing of it is left, or it was given up
)

// Claim makes c the claim of a new token.
func (s *Server) Claim(c *Claim, l Lock) { c.Lock, c.server = l, s }

// End has nothing more sent for the claim but its release.
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

// Unknown reports whether the last try has no answer yet, and may still take the lock, behind another holder.
func (c *Claim) Unknown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tries > 0 || c.silent && Monotonic() < c.open
}

// mayHave notes that the token may have something on the server, or may get it within that time.
func (c *Claim) mayHave(waits bool, within time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := Monotonic()
	c.there, c.waits = true, waits
	c.until, c.open = max(c.until, now+c.TTL), max(c.open, now+within)
}

// Foreign notes that another process may have put the token there, or does so in a try that is under way: see tried. We
// don't know the node timeout of that process.
func (c *Claim) Foreign() { c.mayHave(false, 2*max(c.Timeout, MaxTimeout)) }

// Given notes that the token has the lock without a try of the Claim: it was taken elsewhere, or a message has handed it to the
// waiter. That may come from a Mutex on the key of an RWMutex, which knows no marks: so the mark may still be there.
func (c *Claim) Given() { c.mayHave(c.Kind.Shows, 0) }

// A Try says how a lock is asked for, or a token is put in the place of another.
type Try struct {
	Start   time.Time     // when the bound begins; zero: now
	TTL     time.Duration // 0: that of the lock
	Plain   bool          // SET NX PX will do, where it can: the caller goes on trying and needs to know nothing of the holder
	Queues  bool          // the caller waits in the queue
	Polls   bool          // it may have a place there, and can't be woken just now: it leaves that when it gets the lock
	Arrived int64         // the server's clock in µs when it came there; 0: not yet
	Rejoins bool          // where it is missing, it goes back to its place; else missing means Lapsed
	Shows   time.Duration // > 0: the others see for so long that it waits
	With    []*Claim      // tokens that enter together with this one
	Olds    []string      // not nil: take the place of one of these tokens
	Keeps   bool          // the new token lasts as long as the one there would have
	Reads   bool          // a writer becomes a reader; the claim is that of the writer
	Regains bool          // the lock is held, by the votes of others: no release before is waited for
}

var errEnded = errors.New("the lock has ended meanwhile") // of what was asked for a claim that has ended

// Try tries once to take the lock, as soon as no release of an earlier claim of this process is in the way. It may be
// repeated until the token is Spent: a repeat that finds the token has the lock.
func (c *Claim) Try(ctx context.Context, t Try) Reply {
	s := c.server
	if t.Start.IsZero() {
		t.Start = time.Now()
	}
	if t.Olds == nil && !t.Reads && !t.Regains && s.inTheWay(c) != nil && !s.await(ctx, c, t.Start.Add(c.Timeout)) {
		why, _ := s.unreleased.Load().(string)
		return Reply{Err: fmt.Errorf("no answer to the release before%s", why)}
	}
	v := acquire
	if t.Olds != nil {
		v = swap
	} else if t.Reads {
		v = downgrade
	}
	op := s.begin(ctx, v, c, t.Start, c.Replicas.Timeout)
	ttl := cmp.Or(t.TTL, c.TTL)
	op.requests[0].ttl, op.try = ttl, t
	op.try.Plain = t.Plain && c.Kind.plain && !c.fenced() && !c.Guard && len(c.More) == 0 && s.scripted.Load()
	until := op.end.Add(ttl)
	if !c.begin(&op.try, until) {
		op.free()
		return Reply{Err: errEnded}
	}
	for _, other := range t.With {
		other.begin(new(Try), until)
	}
	return op.do()
}

// waits reports whether others see that the caller waits.
func (t *Try) waits() bool { return t.Queues || t.Shows > 0 }

// begin notes a command of the claim: a try, or, if t is nil, an extension. What it gives the token has expired at until. It
// reports false, and notes nothing, if the claim is not wanted.
func (c *Claim) begin(t *Try, until time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != wanted {
		return false
	}
	c.running++
	if t != nil {
		c.tries++
		c.doubt = c.doubt || t.Plain
		c.waits = c.waits || t.waits()
	}
	c.until = max(c.until, until.Sub(epoch))
	return true
}

// tried takes in the answer to a try, which is not executed after due. If unanswered, the server may have executed it, or
// may do so yet, whatever the answer says. cut: that is because the ctx of the caller has ended.
func (c *Claim) tried(t *Try, r *Reply, unanswered, cut bool, due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tries--
	if t.Plain {
		c.doubt = unanswered
	}
	if unanswered {
		// By the server's clock, which may have drifted since it last answered.
		c.open = max(c.open, due.Add(c.Timeout).Sub(epoch))
	}
	c.silent = r.Verdict == Failed && (unanswered || c.silent)
	c.cut = cut || c.cut && !unanswered
	if c.state >= released { // the try may have been executed after a release that is still to be answered
		c.open = max(c.open, Monotonic())
	}
	c.there = c.there || unanswered || r.Verdict == Done || r.Verdict == Held && t.waits()
	if r.Verdict == Done && (t.waits() || t.Reads) { // what shows that the caller waits went with the grant
		c.waits = false
	}
	c.endCommand()
}

// extended takes in the answer to an extension, which is not executed after due. It counts only while the claim is wanted.
// unanswered: the server may do so yet, whatever the answer says.
func (c *Claim) extended(r *Reply, unanswered bool, due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if unanswered {
		c.extending = max(c.extending, due.Add(c.Timeout).Sub(epoch)) // as in tried
	}
	if c.state >= released { // it may have been executed after a release that is still to be answered
		c.extending = max(c.extending, Monotonic())
	}
	if r.Verdict == Done {
		c.waits = false // the hand-off has taken the place back, and the extension the mark
		if c.state != wanted {
			*r = Reply{Err: errEnded}
		}
	}
	c.endCommand()
}

// endCommand ends what begin or Enter has begun. The caller holds c.mu.
func (c *Claim) endCommand() {
	c.running--
	if c.running == 0 {
		c.wake()
	}
	if c.state >= released {
		c.settle()
	}
}

// wake wakes those who await something of the claim. The caller holds c.mu.
func (c *Claim) wake() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// Enter has Quiet wait until Leave is called, for a try that is about to begin.
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

// Quiet waits until nothing is under way for the claim, until then at most, or until ctx ends.
func (c *Claim) Quiet(ctx context.Context, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.await(ctx.Done(), until, func() bool { return c.running == 0 })
}

// await waits until so is true, until then at most, or until stop is closed. It reports whether so is true. The caller holds
// c.mu, which is free while it waits.
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
