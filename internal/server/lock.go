package server

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Request says which lock an operation is about, and under which terms.
type Request struct {
	Key     string
	Token   string
	TTL     time.Duration
	Timeout time.Duration // bound on the whole operation on one server

	Fencing        bool
	Guard          bool          // a server without data does not vote for one TTL
	Replicas       int           // the reply counts only once so many replicas have it
	ReplicaTimeout time.Duration // how long to wait for them
	Keep           time.Duration // release: leave the lock to expire after so long, 0 deletes it
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
	deadline := time.Now().Add(r.Timeout)
	ses, err := s.open(deadline.Add(r.ReplicaTimeout), r.Key)
	if err != nil {
		return Reply{Err: err}
	}
	defer ses.close()
	clock := s.clocks.of(ses, r.Key)
	if _, known := clock.at(deadline); !known {
		// A first try without a deadline could be executed late by a server that hangs.
		if err := ses.askTime(clock); err != nil {
			return Reply{Err: err}
		}
	}
	reply := ses.acquire(r, clock, deadline)
	if reply.Verdict == Failed && !refused(reply.Err) {
		s.sweep(r, deadline)
		return reply
	}
	if reply.Verdict == Done && r.Replicas > 0 {
		if err := ses.waitReplicas(r); err != nil {
			s.sweep(r, time.Time{})
			return Reply{Err: err}
		}
	}
	return reply
}

// acquire runs the acquiring script, a second time if our idea of the server's clock was off.
func (ses session) acquire(r *Request, clock *clock, deadline time.Time) Reply {
	args := argsPool.Get().(*[10]any)
	defer argsPool.Put(args)
	for retry := false; ; retry = true {
		due, _ := clock.at(deadline)
		sent := time.Now()
		raw, err := ses.eval(acquireScript, acquireArgs(args, r, due))
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
		reply.Sent = sent
		return reply
	}
}

// acquireArgs lays the arguments of the acquiring script into args, whose first place stays free.
func acquireArgs(args *[10]any, r *Request, due int64) []any {
	n := 3
	args[2] = r.Key
	counterTTL := any("0")
	if r.Fencing {
		args[n], n = FenceKey(r.Key), n+1
		counterTTL = (r.TTL + fenceTTL).Milliseconds()
	}
	guard := any("0")
	if r.Guard {
		args[n], n = guardKey, n+1
		guard = "1"
	}
	args[1] = n - 2
	return append(args[:n], r.Token, r.TTL.Milliseconds(), due, counterTTL, guard)
}

var argsPool = sync.Pool{New: func() any { return new([10]any) }}

// parseAcquire reads the reply of acquire.lua. now is the server's clock where the reply has it,
// negative where the try came too late.
func parseAcquire(raw any) (r Reply, now int64) {
	switch v := raw.(type) {
	case int64:
		if v < 0 {
			return Reply{Err: errLate}, v
		}
		return Reply{Verdict: Done}, v
	case []any:
		if len(v) != 2 {
			break
		}
		second, _ := v[1].(int64)
		switch first := v[0].(type) {
		case int64:
			return Reply{Verdict: Done, Fence: second}, first
		case []byte:
			return Reply{Verdict: Held, Holder: string(first), Left: time.Duration(second) * time.Millisecond}, 0
		}
	}
	return Reply{Err: fmt.Errorf("unexpected reply %T to the acquiring script", raw)}, 0
}

// errLate is what a try gets that the server executed only after its deadline, and so not at all.
var errLate = fmt.Errorf("%w: it came too late, and nothing was done", errTimeout)

// refused reports whether the server said no to a try that ended in err, so that it certainly
// wrote no lock: acquire.lua writes it last.
func refused(err error) bool {
	var e redis.Error
	return errors.As(err, &e) || errors.Is(err, errLate)
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
	deadline := time.Now().Add(r.Timeout)
	ses, err := s.open(deadline, r.Key)
	if err != nil {
		s.sweep(r, time.Time{})
		return Reply{Err: err}
	}
	defer ses.close()
	sent := time.Now()
	raw, err := ses.eval(releaseScript, []any{nil, 1, r.Key, r.Token, r.Keep.Milliseconds()})
	if err != nil && !Permanent(err) {
		s.sweep(r, time.Time{})
	}
	return parseEnd(raw, err, sent)
}

// parseEnd reads the reply of release.lua and extend.lua.
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
