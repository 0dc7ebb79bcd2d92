package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redimutex/redimutex/internal/conn"
)

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

// set is a try by SET NX PX. It takes less of the server than the script does, and knows less: not who holds the lock, nor
// whether what is in its place is a lock at all. So the script follows where it does not take the lock, can't be sent, or
// is refused alone, as by Redis 5.0 with too few replicas. A repeat over another connection is a script: it finds its token.
//
// SET can't carry a deadline. Instead, when that passes without a reply, a release is written behind the SET on the same
// connection. Whenever the server gets to executing the first, after a hang or a cut, it executes the second next.
func (op *operation) set() error {
	op.deadline, op.undoes = op.due, true
	r := &op.requests[0]
	raw, err := op.command("SET", op.args.plain(&r.claim.Lock)...)
	op.undoes = false
	switch {
	case err == nil && raw != any("OK"), coded(err, "NOREPLICAS"), errors.Is(err, conn.ErrNoSend), op.follow(err, 0):
		return op.scripts()
	case err != nil:
		return err
	}
	op.tell(r, Reply{Verdict: Done, Sent: op.sent})
	r.unconfirmed = r.claim.Replicas.N > 0
	op.confirm(nil)
	return nil
}
