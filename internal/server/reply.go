package server

import (
	"fmt"
	"time"
)

// A Verdict is what a server said.
type Verdict int8

const (
	Failed  Verdict = iota // nothing that counts; see Reply.Err
	Done                   // granted, extended, released
	Held                   // acquire: another holds it
	Missing                // extend, release: the lock is gone
	Taken                  // extend, release: another holds it
	Lapsed                 // acquire: the waiter is no longer queued; it let its hand-off lapse, or was passed over
)

// A Reply is one server's answer to one operation.
type Reply struct {
	Verdict Verdict
	Err     error         // with Failed
	Unasked bool          // the server was not asked: there was no need
	Unknown bool          // with Failed: the operation may have been executed, or may be yet
	There   bool          // acquire, with Failed: it was executed, but does not count
	Twice   bool          // acquire: it was sent twice, because a connection broke; the first may be executed yet
	Sent    time.Time     // just before the command was sent
	Fence   int64         // with Done
	Holder  string        // with Held: the value of the lock, 320 bytes at most
	Left    time.Duration // with Held: what is left of the holder's TTL; negative without a TTL. Of a swap: what old had left
	Which   int           // with Missing and Taken: which of the keys
	Now     int64         // the server's clock in µs, where the script tells it
	Gap     time.Duration // with Held, in the queue: since anybody looked at it before; 0: no waiter has
}

// none reports whether there is no reply yet.
func (r *Reply) none() bool { return r.Verdict == Failed && r.Err == nil }

// answer reads the reply of a script of a lock, or the error in its place, to a command that was sent then. now is the
// server's clock where the reply has it, negative where the command came too late.
//
//	{now, fence} and {…, left}      granted
//	{holder, ms} and {…, now, gap}  another holds it
//	{0, i}, {-1, i}                 lock i is gone, another holds it
//	1, 0, -now                      done; the waiter was passed over; too late
func answer(raw any, err error, sent time.Time) (r Reply, now int64) {
	switch v := raw.(type) {
	case error:
		err = v
	case int64:
		switch {
		case v < 0:
			r.Err, now = errLate, v
		case v == 0:
			r.Verdict = Lapsed
		case v == 1:
			r.Verdict = Done
		}
	case []any:
		r = parse(v)
		now = r.Now
	}
	if r.Verdict == Failed && r.Err == nil {
		if r.Err = err; err == nil {
			r.Err = fmt.Errorf("unexpected reply %T to a script", raw)
		}
	}
	r.Sent = sent
	return r, now
}

// parse reads a reply of several values.
func parse(v []any) (r Reply) {
	if len(v) < 2 {
		return r
	}
	second, _ := v[1].(int64)
	switch first := v[0].(type) {
	case int64:
		switch {
		case first > 0:
			r = Reply{Verdict: Done, Fence: second, Now: first}
			if len(v) == 3 {
				left, _ := v[2].(int64)
				r.Left = time.Duration(left) * time.Millisecond
			}
			return r
		case first == 0:
			return Reply{Verdict: Missing, Which: int(second) - 1}
		}
		return Reply{Verdict: Taken, Which: int(second) - 1}
	case []byte:
		r = Reply{Verdict: Held, Holder: string(first), Left: time.Duration(second) * time.Millisecond}
		if len(v) == 4 {
			gap, _ := v[3].(int64)
			r.Now, _ = v[2].(int64)
			r.Gap = time.Duration(gap) * time.Microsecond
		}
	}
	return r
}
