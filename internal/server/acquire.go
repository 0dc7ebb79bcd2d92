package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
)

// Acquire tries once to take the lock. A try whose outcome is unknown, or that did not count
// although it wrote, is undone in the background before anybody can mistake it for a lock. That concerns the token; a
// ticket is withdrawn with it only if this try would have been its first.
func (s *Server) Acquire(ctx context.Context, t Try) Reply {
	op := s.begin(ctx, &t.Lock, t.Start, t.Replicas.Timeout)
	op.try = t
	op.fresh = s.wasSilent(t.Key)
	op.plain = t.Plain && t.Fences == 0 && !t.Guard && !t.Queue && s.scripted.Load() && s.source.Pipelines()
	return s.bounded(op, acquiring{})
}

type acquiring struct{}

func (acquiring) do(op *operation) Reply {
	ses, err := op.open(op.try.Key)
	if err != nil {
		return Reply{Err: err}
	}
	reply := ses.acquire(&op.try)
	ses.close()
	if ses.pinned && reply.Verdict != Failed {
		op.server.nodes.learn(op.key)
	}
	return reply
}

func (acquiring) abandon(op *operation, err error, mayRun bool) Reply {
	if !mayRun {
		return Reply{Err: err}
	}
	if TimedOut(err) {
		op.server.nodes.clock(op.server.nodes.cluster.Load(), op.key).forget() // as after any silence
	}
	op.undo(op.due, op.plain)
	return Reply{Err: err, Sent: op.start, Open: op.due, Undone: true}
}

// late gives back what was won when nobody waited for it any more.
func (acquiring) late(op *operation) {
	if op.reply.Verdict == Done && !op.try.Regain {
		op.server.Undo(op.rollBack(time.Time{}, false))
	}
}

func (ses *session) acquire(t *Try) Reply {
	op := ses.op
	ses.within(op.due)
	var reply Reply
	broke := false
	ses.steady(func() error { //nolint:errcheck // it stands in the reply
		reply = ses.tryOnce(t, op.plain && !broke)
		broke = ses.severed(reply.Err)
		return reply.Err
	})
	if reply.Verdict == Done && ses.redials > 0 {
		op.server.doubtful.add(t.Token, op.due)
	}
	switch {
	case reply.Verdict == Failed && !refused(reply.Err):
		reply.Open, reply.Undone = op.due, true
		op.undo(op.due, op.plain)
	case reply.Verdict == Done && t.Replicas.N > 0:
		if err := ses.waitReplicas(t.Replicas); err != nil {
			op.undo(time.Time{}, false)
			return Reply{Err: err, Sent: reply.Sent, Undone: true}
		}
	}
	return reply
}

// tryOnce is a try over the connection that there is. One that is repeated takes the lock again that it has taken before.
func (ses *session) tryOnce(t *Try, plain bool) (reply Reply) {
	if plain {
		reply = ses.acquirePlain(t)
	}
	// A SET does not tell who holds the lock, nor whether it is one; and Redis 5.0 with too few replicas refuses it alone.
	if !plain || reply.Verdict == Held || begins(reply.Err, "NOREPLICAS ") || errors.Is(reply.Err, conn.ErrNoSend) {
		reply = ses.acquireScripted(t)
	}
	return reply
}

// acquireScripted is a try that carries its own deadline, for which we have to know the server's clock. It is repeated
// if our idea of that was off, or if another node of the cluster has the lock now.
func (ses *session) acquireScripted(t *Try) Reply {
	op := ses.op
	for again := false; ; again = true {
		clock := op.server.nodes.clock(ses.pinned, t.Key)
		due, known := clock.at(op.due)
		if !known {
			if err := ses.askTime(clock); err != nil {
				return Reply{Err: untried{err}}
			}
			due, _ = clock.at(op.due)
		}
		if !op.sending() {
			return Reply{Err: untried{errTimeout}}
		}
		raw, err := ses.acquireOnce(t, due)
		if err != nil {
			if !refused(err) {
				clock.forget() // who answers next may be another server, after a failover, with another clock
			}
			if !again && ses.follow(err) {
				clock.forget()
				continue
			}
			return Reply{Err: err, Sent: ses.sent}
		}
		op.server.scripted.Store(true)
		reply, now := parseAcquire(raw)
		if now != 0 {
			clock.learn(max(now, -now), ses.sent, ses.received)
		}
		if now < 0 && !again && time.Now().Before(op.due) {
			continue
		}
		reply.Sent = ses.sent
		return reply
	}
}

func (ses *session) acquireOnce(t *Try, due int64) (any, error) {
	if t.Queue {
		return ses.eval(acquireQueuedScript, ses.op.args.acquireQueued(t, due, ses.pinned))
	}
	return ses.eval(acquireScript, ses.op.args.acquire(t, due))
}

// parseAcquire reads the reply of acquire.lua and acquire_queued.lua. now is the server's clock where the reply has it,
// negative where the try came too late.
func parseAcquire(raw any) (r Reply, now int64) {
	switch v := raw.(type) {
	case int64:
		switch {
		case v < 0:
			return Reply{Err: errLate}, v
		case v == 0:
			return Reply{Verdict: Lapsed}, 0
		}
		return Reply{Verdict: Done, Now: v}, v
	case []any:
		if len(v) < 2 {
			break
		}
		second, _ := v[1].(int64)
		switch first := v[0].(type) {
		case int64:
			return Reply{Verdict: Done, Fence: second, Now: first}, first
		case []byte:
			r := Reply{Verdict: Held, Holder: string(first), Left: time.Duration(second) * time.Millisecond}
			if len(v) == 4 {
				gap, _ := v[3].(int64)
				r.Now, _ = v[2].(int64)
				r.Gap = time.Duration(gap) * time.Microsecond
			}
			return r, r.Now
		}
	}
	return Reply{Err: fmt.Errorf("unexpected reply %T to the acquiring script", raw)}, 0
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
