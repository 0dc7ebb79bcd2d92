package server

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

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
}

// Try tries once to take the lock. It may be repeated until the token is Spent: a repeat that finds the token has the
// lock.
func (c *Claim) Try(ctx context.Context, t Try) Reply {
	if t.Old == "" && !t.Reads && c.server.before(c) != nil {
		if t.Start.IsZero() {
			t.Start = time.Now()
		}
		began := c.server.asks()
		ok := c.waitBefore(ctx, t.Start.Add(c.Timeout))
		r := Reply{Err: errLateRelease, Unasked: true}
		c.server.answersTo(ctx, began, &r)
		if !ok {
			return r
		}
	}
	op := c.server.begin(ctx, &c.Lock, t.Start, c.Replicas.Timeout)
	op.claim, op.try = c, t
	op.plain = t.Plain && c.Kind.plain && !c.fenced() && !c.Guard && len(c.More) == 0 &&
		c.server.scripted.Load() && c.server.source.Pipelines()
	until := op.end.Add(c.TTL)
	if !c.begin(true, op.plain, until) {
		op.free()
		return Reply{Err: errEnded, Unasked: true}
	}
	for _, other := range t.With {
		other.begin(true, false, until)
	}
	return c.server.bounded(op, trying{})
}

// errEnded is the failure of what was asked for a claim that has ended.
var errEnded = errors.New("the lock has ended meanwhile")

type trying struct{}

func (trying) ask(ses *session) Reply {
	op := ses.op
	ses.within(op.due)
	reply := ses.acquire(op.plain && ses.redials == 0)
	reply.Unknown = reply.Verdict == Failed && !refused(reply.Err)
	reply.Twice = ses.redials > 0
	if n := op.claim.Replicas; reply.Verdict == Done && n.N > 0 {
		if err := ses.waitReplicas(n); err != nil {
			return Reply{Err: err, Sent: reply.Sent, There: true, Twice: reply.Twice}
		}
	}
	return reply
}

func (trying) took(op *operation, r *Reply) {
	op.claim.tried(r, op.due, op.plain, op.try.Queues || op.try.Shows > 0)
	for _, other := range op.try.With {
		other.tried(r, op.due, false, false)
	}
	if r.Verdict != Failed && op.session.pinned {
		op.server.nodes.learn(op.key)
	}
}

// acquire is a try over the connection that there is. One that is repeated takes the lock again that it has taken before.
func (ses *session) acquire(plain bool) (reply Reply) {
	if plain {
		reply = ses.acquirePlain(&ses.op.claim.Lock)
	}
	// A SET does not tell who holds the lock, nor whether it is one; and Redis 5.0 with too few replicas refuses it alone.
	if !plain || reply.Verdict == Held || coded(reply.Err, "NOREPLICAS") || errors.Is(reply.Err, conn.ErrNoSend) {
		reply = ses.acquireScripted()
	}
	return reply
}

// acquireScripted is a try that carries its own deadline, for which we have to know the server's clock. It is repeated
// if our idea of that was off, or if another node of the cluster has the lock now.
func (ses *session) acquireScripted() Reply {
	op := ses.op
	for again := false; ; again = true {
		clock := ses.clock(op.key)
		due, known := clock.at(op.due)
		if !known {
			if err := ses.askTime(clock); err != nil {
				return Reply{Err: untried{err}}
			}
			due, _ = clock.at(op.due)
		}
		if op.left() {
			return Reply{Err: untried{errTimeout}}
		}
		raw, err := ses.acquireOnce(due)
		if err != nil {
			if !refused(err) {
				clock.forget() // who answers next may be another server, after a failover, with another clock
			}
			if !again && ses.follow(err) {
				continue
			}
			return Reply{Err: err, Sent: ses.sent}
		}
		op.server.scripted.Store(true)
		reply, now := answer(raw, nil, ses.sent)
		if reply.Verdict == Done && now == 0 {
			return Reply{Err: errors.New("unexpected reply to a try"), Sent: ses.sent}
		}
		if now != 0 {
			clock.learn(max(now, -now), ses.sent, ses.received)
		}
		if now < 0 && !again && time.Now().Before(op.due) {
			continue
		}
		if reply.Verdict == Done && op.try.OldEnds != nil {
			op.try.oldEnds(&reply)
		}
		return reply
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

func (ses *session) acquireOnce(due int64) (any, error) {
	op := ses.op
	l := &op.claim.Lock
	switch {
	case op.try.Old != "":
		return ses.eval(op.args.swap(l, op.try.Old, due))
	case op.try.Reads:
		return ses.eval(op.args.downgrade(l, due, ses.pinned))
	}
	return ses.eval(op.args.acquire(l, &op.try, due, ses.pinned))
}

// errLate is what a command gets that the server executed only after its deadline, and so not at all.
var errLate = fmt.Errorf("%w: it came too late, and nothing was done", errTimeout)

// untried is an error that came before the try was sent.
type untried struct{ error }

func (u untried) Unwrap() error { return u.error }

// refused reports whether a command that ended in err certainly did nothing: it was not sent, or the
// server said no, and the scripts leave no lock behind then.
func refused(err error) bool {
	var e redis.Error
	var u untried
	return errors.As(err, &e) || errors.As(err, &u) || errors.Is(err, errLate)
}

// replicaError says that too few replicas have what was written.
type replicaError struct {
	got  int
	want Replicas
}

func (e replicaError) Error() string {
	return fmt.Sprintf("%d of the %d wanted replicas confirmed within %v", e.got, e.want.N, e.want.Timeout)
}
