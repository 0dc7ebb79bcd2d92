package server

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/conn"
)

// A Try is one try for a lock.
type Try struct {
	Start   time.Time     // when the bound begins; zero: now
	Plain   bool          // SET NX PX will do: the caller goes on trying and needs to know nothing of the holder
	Queues  bool          // the caller waits in the queue
	Arrived int64         // the server's clock in µs when it came there; 0: not yet
	Rejoins bool          // where it is missing, it goes back to its place; else missing means Lapsed
	Shows   time.Duration // > 0: the others see for so long that it waits
	With    []*Claim      // tokens that enter together with this one
	Old     string        // not "": take the place of this token
	OldEnds *atomic.Int64 // gets when Old would have expired, on the wall clock in ns, as the servers tell it: the earliest
	Reads   bool          // a writer becomes a reader; the claim is that of the reader
	Regains bool          // the lock is held, by the votes of others: no release before is waited for
}

var (
	// errEnded is the failure of what was asked for a claim that has ended.
	errEnded = errors.New("the lock has ended meanwhile")
	// errBefore is that of a try that another claim was in the way of.
	errBefore = errors.New("no answer to the release before")
)

// Try tries once to take the lock, as soon as no release of an earlier claim of this process is in the way. It may be
// repeated until the token is Spent: a repeat that finds the token has the lock.
func (c *Claim) Try(ctx context.Context, t Try) Reply {
	s := c.server
	if t.Start.IsZero() {
		t.Start = time.Now()
	}
	if t.Old == "" && !t.Reads && !t.Regains && !s.await(ctx, &c.Lock, t.Start.Add(c.Timeout)) {
		return Reply{Err: errBefore, Unasked: true}
	}
	op := s.begin(ctx, &c.Lock, t.Start, c.Replicas.Timeout, c)
	op.speak, op.lay, op.took = (*operation).speakTry, layTry, (*operation).tookTry
	op.timed, op.creates, op.try = true, true, t
	op.plain = t.Plain && c.Kind.plain && !c.fenced() && !c.Guard && len(c.More) == 0 &&
		s.scripted.Load() && s.source.Pipelines()
	until := op.end.Add(c.TTL)
	if !c.begin(true, op.plain, until) {
		op.free()
		return Reply{Err: errEnded, Unasked: true}
	}
	for _, other := range t.With {
		other.begin(true, false, until)
	}
	return op.do()
}

func layTry(op *operation, i int) (script, []any) {
	due := op.dueAt(i)
	switch l := &op.claims[0].Lock; {
	case op.try.Old != "":
		return op.args.swap(l, op.try.Old, due)
	case op.try.Reads:
		return op.args.downgrade(l, due, op.pinned)
	default:
		return op.args.acquire(l, &op.try, due, op.pinned)
	}
}

// speakTry is a try over the connection that there is. One that is repeated takes the lock again that it has taken before.
func (op *operation) speakTry() error {
	if !op.plain || op.redials > 0 {
		return op.scripts()
	}
	raw, err := op.set()
	switch {
	// A SET does not tell who holds the lock, nor whether it is one; and Redis 5.0 with too few replicas refuses it alone.
	case err == nil && raw == nil, coded(err, "NOREPLICAS"), errors.Is(err, conn.ErrNoSend), err != nil && op.follow(err):
		return op.scripts()
	case err != nil:
		return err
	}
	op.tell(0, Reply{Verdict: Done, Sent: op.sent})
	if op.claims[0].Replicas.N > 0 {
		op.unconfirmed = append(op.unconfirmed[:0], 0)
		op.confirm(nil)
	}
	return nil
}

// tookTry takes in what came of a try.
func (op *operation) tookTry(_ int, r *Reply) {
	r.Unknown = r.Verdict == Failed && !refused(r.Err)
	r.Twice = op.redials > 0
	op.claims[0].tried(r, op.due, op.plain, op.try.Queues || op.try.Shows > 0)
	for _, other := range op.try.With {
		other.tried(r, op.due, false, false)
	}
	if r.Verdict == Done && op.try.OldEnds != nil {
		op.try.oldEnds(r)
	}
	if r.Verdict != Failed && op.pinned {
		op.server.nodes.learn(op.key)
	}
}

// oldEnds takes in what a server says of the token before.
func (t *Try) oldEnds(r *Reply) {
	if r.Left <= 0 {
		return
	}
	for end := r.Sent.Add(r.Left).UnixNano(); ; {
		known := t.OldEnds.Load()
		if known != 0 && known <= end || t.OldEnds.CompareAndSwap(known, end) {
			return
		}
	}
}

const (
	// grace is how much longer we read than the deadline says: the connection has to be open when the
	// timer for the undo fires, and a busy machine fires it late.
	grace = 100 * time.Millisecond
	// drain is how long to wait for a reply that should be there already.
	drain = 20 * time.Millisecond
)

// set is a try by SET NX PX. It takes less of the server than the script does, and knows less:
// not who holds the lock, nor whether what is in its place is a lock at all.
//
// SET can't carry a deadline. Instead, when the deadline passes without a reply, a release is
// written behind the SET on the same connection. Whenever the server gets to executing the first,
// be it after a hang or when the network has healed, it executes the second next.
func (op *operation) set() (any, error) {
	if op.state.Load() == abandoned {
		return nil, untried{errTimeout}
	}
	op.deadline = op.due
	if source := op.server.source; source.Punctual {
		op.undoes = true
		raw, err := op.command("SET", op.args.plain(&op.claims[0].Lock)...)
		op.undoes = false
		return raw, err
	}
	raw, err := op.setAndWatch()
	if err != nil {
		err = op.failed(err)
	}
	return raw, err
}

// setAndWatch is set over a connection that knows no ctx.
func (op *operation) setAndWatch() (any, error) {
	c := op.conn
	op.sent = time.Now()
	left := op.due.Sub(op.sent)
	if left <= 0 {
		return nil, untried{errTimeout}
	}
	if err := op.server.source.Send(c, "SET", op.args.plain(&op.claims[0].Lock)...); err != nil {
		return nil, err
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	written := make(chan struct{})
	undo := time.AfterFunc(left, func() { // beside the goroutine that waits for the reply, which redigo allows
		defer close(written)
		back := op.args.undo().([]any)
		if c.Send(back[0].(string), back[1:]...) == nil {
			_ = c.Flush() // if it fails, the release in the background is left
		}
	})
	raw, err := conn.Receive(c, left+grace)
	if undo.Stop() {
		return raw, err
	}
	<-written
	if c.Err() == nil { // a reply and the deadline came together; the connection still owes the reply to the undo
		_, _ = conn.Receive(c, drain)
	}
	return nil, errTimeout
}
