package server

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Request says which lock an operation is about, and under which terms.
type Request struct {
	Key     string
	Token   string
	TTL     time.Duration
	Timeout time.Duration // bound on the whole operation on one server
	Start   time.Time     // when the Timeout begins; zero: when the operation does

	Fencing        bool
	Guard          bool          // a server without data does not vote for one TTL
	Replicas       int           // the reply counts only once so many replicas have it
	ReplicaTimeout time.Duration // how long to wait for them
	Keep           time.Duration // release: leave the lock to expire after so long, 1 ms at least; 0 deletes it

	Queue   bool          // the lock has a queue
	Claim   time.Duration // for how long a waiter is given the lock; 0: waiters are only woken
	Channel string        // acquire, and leaving the queue: where this waiter listens; "": it does not wait
	Waiter  string        // its name there; with a Claim it has to be the token
	Arrived int64         // acquire: when the waiter arrived, on the server's clock in µs; 0: now
	Heir    *Heir         // release: who of this process waits next; listens on Channel
	Again   time.Time     // sweep: a try that nobody waits for any more may be executed until then

	Plain bool // acquire: SET NX PX will do; the caller goes on trying, and nothing can interrupt it
}

// An Heir is a waiter whom a release puts into the queue before it hands the lock over.
type Heir struct {
	Name    string       // as Request.Waiter
	Arrived atomic.Int64 // the server's clock in µs when he was; 0: he was not
}

func (r *Request) start() time.Time {
	if r.Start.IsZero() {
		return time.Now()
	}
	return r.Start
}

// A Verdict is what a server said.
type Verdict int8

const (
	Failed  Verdict = iota // nothing that counts; see Reply.Err
	Done                   // granted, extended, released
	Held                   // acquire: somebody else holds it
	Missing                // extend, release: the lock is gone
	Taken                  // extend, release: somebody else holds it
)

// A Reply is one server's answer to one operation.
type Reply struct {
	Verdict Verdict
	Err     error         // with Failed
	Sent    time.Time     // just before the command was sent
	Fence   int64         // with Done, when fencing
	Holder  string        // with Held: the token of the holder
	Left    time.Duration // with Held: what is left of the holder's TTL; negative without a TTL
	Now     int64         // the server's clock in µs, where the script tells it
	Waiting int           // with Held, with a queue: how many wait
}

// fenceTTL is how long a fence counter outlives the last acquisition. A counter that expired
// restarts from the server's clock, which is ahead of it unless the clock was set back.
const fenceTTL = time.Hour

// guardKey marks a server that has kept its data.
const guardKey = "redimutex:guard"

// FenceKey is the name of the fence counter of key.
func FenceKey(key string) string { return Sibling(key, "fence") }

// Acquire tries once to take the lock. A try whose outcome is unknown, or that did not count
// although it wrote, is rolled back in the background before anybody can mistake it for a lock.
func (s *Server) Acquire(r *Request) Reply {
	deadline := r.start().Add(r.Timeout)
	ses, err := s.open(deadline.Add(r.ReplicaTimeout), r.Key)
	if err != nil {
		return Reply{Err: err}
	}
	defer ses.close()
	var reply Reply
	if r.Plain && !r.Fencing && !r.Guard && !r.Queue {
		reply = ses.acquirePlain(r)
	} else {
		reply = s.acquireScripted(ses, r, deadline)
	}
	if reply.Verdict == Failed && !refused(reply.Err) {
		s.sweepTry(r, deadline)
		return reply
	}
	if reply.Verdict == Done && r.Replicas > 0 {
		if err := ses.waitReplicas(r); err != nil {
			s.Sweep(r)
			return Reply{Err: err}
		}
	}
	return reply
}

// acquireScripted is a try that carries its own deadline, for which we have to know the server's clock.
func (s *Server) acquireScripted(ses session, r *Request, deadline time.Time) Reply {
	clock := s.clocks.of(ses, r.Key)
	if _, known := clock.at(deadline); !known {
		if err := ses.askTime(clock); err != nil {
			return Reply{Err: untried{err}}
		}
	}
	reply := ses.acquire(r, clock, deadline)
	if reply.Verdict == Failed && !refused(reply.Err) {
		clock.forget() // who answers next may be another server, after a failover, with another clock
	}
	return reply
}

// untried is an error that came before the try was sent.
type untried struct{ error }

func (u untried) Unwrap() error { return u.error }

// acquire runs the acquiring script, a second time if our idea of the server's clock was off.
func (ses session) acquire(r *Request, clock *clock, deadline time.Time) Reply {
	args := newArguments()
	defer args.free()
	script, layOut := acquireScript, args.acquire
	if r.Queue {
		script = acquireQueuedScript
		layOut = func(r *Request, due int64) []any { return args.acquireQueued(r, due, ses.pinned) }
	}
	for retry := false; ; retry = true {
		due, _ := clock.at(deadline)
		sent := time.Now()
		raw, err := ses.eval(script, layOut(r, due))
		if err != nil {
			return Reply{Err: err, Sent: sent}
		}
		reply, now := parseAcquire(raw)
		if now != 0 {
			clock.learn(max(now, -now), sent, time.Now())
		}
		if now < 0 && !retry && time.Now().Before(deadline) {
			continue
		}
		reply.Sent, reply.Now = sent, now
		return reply
	}
}

// parseAcquire reads the reply of acquire.lua and acquire_queued.lua. now is the server's clock where the reply has it,
// negative where the try came too late.
func parseAcquire(raw any) (r Reply, now int64) {
	switch v := raw.(type) {
	case int64:
		if v < 0 {
			return Reply{Err: errLate}, v
		}
		return Reply{Verdict: Done}, v
	case []any:
		if len(v) < 2 {
			break
		}
		second, _ := v[1].(int64)
		switch first := v[0].(type) {
		case int64:
			return Reply{Verdict: Done, Fence: second}, first
		case []byte:
			r := Reply{Verdict: Held, Holder: string(first), Left: time.Duration(second) * time.Millisecond}
			if len(v) == 4 {
				waiting, _ := v[3].(int64)
				r.Now, _ = v[2].(int64)
				r.Waiting = int(waiting)
			}
			return r, r.Now
		}
	}
	return Reply{Err: fmt.Errorf("unexpected reply %T to the acquiring script", raw)}, 0
}

// errLate is what a try gets that the server executed only after its deadline, and so not at all.
var errLate = fmt.Errorf("%w: it came too late, and nothing was done", errTimeout)

// refused reports whether a try that ended in err certainly wrote no lock: it was not sent, or the
// server said no, and acquire.lua writes the lock last.
func refused(err error) bool {
	var e redis.Error
	var u untried
	return errors.As(err, &e) || errors.As(err, &u) || errors.Is(err, errLate)
}

// askTime learns the server's clock.
func (ses session) askTime(clock *clock) error {
	sent := time.Now()
	v, err := redis.Int64s(ses.do("TIME"))
	if err != nil {
		return err
	}
	if len(v) != 2 {
		return fmt.Errorf("unexpected reply %v to TIME", v)
	}
	clock.learn(v[0]*1e6+v[1], sent, time.Now())
	return nil
}

// waitReplicas waits until the replicas have what this connection wrote.
func (ses session) waitReplicas(r *Request) error {
	got, err := redis.Int(ses.do("WAIT", r.Replicas, r.ReplicaTimeout.Milliseconds()))
	if err != nil {
		return err
	}
	if got < r.Replicas {
		return fmt.Errorf("%d of the %d wanted replicas confirmed within %v", got, r.Replicas, r.ReplicaTimeout)
	}
	return nil
}

// Release gives the lock back. If the server does not answer, the release is repeated in the
// background until the lock's TTL is over.
func (s *Server) Release(r *Request) Reply {
	sent := r.start()
	ses, err := s.open(sent.Add(r.Timeout), r.Key)
	if err != nil {
		s.Sweep(r)
		return Reply{Err: err}
	}
	defer ses.close()
	args := newArguments()
	defer args.free()
	c := releasing(r, args, ses.pinned)
	raw, err := ses.eval(c.script, c.args)
	if err != nil && !Permanent(err) {
		s.Sweep(r)
	}
	reply := parseEnd(raw, err, sent)
	if r.Heir != nil {
		r.Heir.Arrived.Store(reply.Now)
	}
	return reply
}

// releasing is the command that gives the lock of r back, laid out in args.
func releasing(r *Request, args *arguments, pinned bool) command {
	switch {
	case r.Keep > 0:
		return command{retainScript, args.release(r)}
	case r.Queue:
		return command{releaseQueuedScript, args.releaseQueued(r, pinned)}
	}
	return command{releaseScript, args.release(r)}
}

// parseEnd reads the reply of release.lua, retain.lua and extend.lua.
func parseEnd(raw any, err error, sent time.Time) Reply {
	if e, ok := raw.(redis.Error); ok {
		err = e
	}
	if err != nil {
		return Reply{Err: err, Sent: sent}
	}
	switch v, _ := raw.(int64); {
	case v == 1:
		return Reply{Verdict: Done, Sent: sent}
	case v > 1: // with an heir
		return Reply{Verdict: Done, Sent: sent, Now: v}
	case v == 0:
		return Reply{Verdict: Missing, Sent: sent}
	case v == -1:
		return Reply{Verdict: Taken, Sent: sent}
	}
	return Reply{Err: errLate, Sent: sent}
}

// Raise lifts the fence counter of a lock to fence, if it is lower.
func (s *Server) Raise(r *Request, fence int64) Reply {
	ses, err := s.open(time.Now().Add(r.Timeout), r.Key)
	if err != nil {
		return Reply{Err: err}
	}
	defer ses.close()
	if _, err = ses.eval(raiseScript, []any{nil, 1, FenceKey(r.Key), fence, (r.TTL + fenceTTL).Milliseconds()}); err != nil {
		return Reply{Err: err}
	}
	return Reply{Verdict: Done}
}
